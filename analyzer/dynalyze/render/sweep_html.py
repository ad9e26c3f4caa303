"""A sweep as one HTML page, the index of its items' own reports: with the style and the safety of these."""

from __future__ import annotations

from dynalyze.render.html import render_page
from dynalyze.render.view.sweep import build_sweep
from dynalyze.sweep.records import Sweep


def render(sweep: Sweep) -> str:
    """The whole page. Links to the items' reports are relative: it belongs into the sweep's folder."""
    return render_page("sweep.html.jinja", build_sweep(sweep), more=("tables", "sweep"))
