"""A comparison of two sweeps as JSON: schema_version first, then the sentence, then the facts."""

from __future__ import annotations

from dynalyze.comparison.sweeps import SCHEMA_VERSION, SweepComparison
from dynalyze.render.comparison_parts import document
from dynalyze.words.sweep_diff import verdict


def render(comparison: SweepComparison) -> str:
    """The whole document, indented."""
    return document(comparison, SCHEMA_VERSION, verdict(comparison))
