"""A comparison as JSON: schema_version first, then the sentence, then the facts."""

from __future__ import annotations

import msgspec

from dynalyze.comparison.types import SCHEMA_VERSION, Comparison
from dynalyze.render.words.comparison import verdict
from dynalyze.text.json_text import json_text


def render_comparison(comparison: Comparison) -> str:
    """The whole document, indented."""
    return document(comparison, SCHEMA_VERSION, verdict(comparison))


def document(comparison: msgspec.Struct, schema_version: int, verdict: str) -> str:
    """That of any two things compared: `before` and `after` are fields of it."""
    facts = msgspec.to_builtins(comparison)
    before, after = facts.pop("before"), facts.pop("after")
    return json_text({"schema_version": schema_version, "before": before, "after": after, "verdict": verdict, **facts})
