"""A comparison as JSON: schema_version first, then the sentence, then the facts."""

from __future__ import annotations

from dynalyze.comparison.types import SCHEMA_VERSION, Comparison
from dynalyze.render.comparison_parts import document
from dynalyze.words.comparison import verdict


def render(comparison: Comparison) -> str:
    """The whole document, indented."""
    return document(comparison, SCHEMA_VERSION, verdict(comparison))
