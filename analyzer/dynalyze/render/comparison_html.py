"""A comparison as one HTML page, with the style, the script and the safety of the report's page."""

from __future__ import annotations

from dynalyze.comparison.types import Comparison
from dynalyze.render.html import render_page
from dynalyze.render.view.comparison import build_comparison


def render(comparison: Comparison) -> str:
    """The whole page."""
    return render_page("comparison.html.jinja", build_comparison(comparison), more=("tables",))
