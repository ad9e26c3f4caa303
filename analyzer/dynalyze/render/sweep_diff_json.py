"""A comparison of two sweeps as JSON: schema_version first, then the sentence, then the facts."""

from __future__ import annotations

import msgspec

from dynalyze.comparison.sweeps import SCHEMA_VERSION, SweepComparison
from dynalyze.render.sweep_diff_words import verdict


def render(comparison: SweepComparison) -> str:
    """The whole document, indented."""
    facts = msgspec.to_builtins(comparison)
    ordered = {
        "schema_version": SCHEMA_VERSION,
        "before": facts.pop("before"),
        "after": facts.pop("after"),
        "verdict": verdict(comparison),
        **facts,
    }
    return msgspec.json.format(msgspec.json.encode(ordered), indent=1).decode() + "\n"
