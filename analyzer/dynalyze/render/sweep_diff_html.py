"""A comparison of two sweeps as one HTML page, with the style and the safety of the others."""

from __future__ import annotations

from dynalyze.comparison.sweeps import SweepComparison
from dynalyze.render.html import render_page
from dynalyze.render.view.sweep_diff import build_sweep_diff


def render(comparison: SweepComparison) -> str:
    """The whole page."""
    return render_page("sweep_diff.html.jinja", build_sweep_diff(comparison), more=("tables",))
