"""A comparison, of two runs or of two sweeps, as JSON: schema_version first, then the sentence, then the facts."""

from __future__ import annotations

import msgspec

from dynalyze.comparison import sweeps, types
from dynalyze.text.json_text import json_text
from dynalyze.words import comparison as words


def render_comparison(comparison: types.Comparison) -> str:
    """The whole document, indented."""
    return _document(comparison, types.SCHEMA_VERSION, words.verdict(comparison))


def render_sweep_diff(comparison: sweeps.SweepComparison) -> str:
    """The same of two sweeps."""
    return _document(comparison, sweeps.SCHEMA_VERSION, words.sweeps_verdict(comparison))


def _document(comparison: msgspec.Struct, schema_version: int, verdict: str) -> str:
    facts = msgspec.to_builtins(comparison)
    ordered = {
        "schema_version": schema_version,
        "before": facts.pop("before"),
        "after": facts.pop("after"),
        "verdict": verdict,
        **facts,
    }
    return json_text(ordered)
