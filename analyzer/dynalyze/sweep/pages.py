"""The index page of a sweep, and two sweeps compared, as page and JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynalyze.render.comparison_json import document
from dynalyze.render.html import page
from dynalyze.sweep import words
from dynalyze.sweep.compare import SCHEMA_VERSION, SweepComparison
from dynalyze.sweep.diff_view import SweepDiffPage
from dynalyze.sweep.records import Sweep
from dynalyze.sweep.view import SweepPage, mark_of

_FILTERS: dict[str, Callable[..., Any]] = {
    "breaks_words": words.breaks_words,
    "ending_words": words.status_words,
    "changed_item": words.changed_item,
    "place_words": words.place_words,
    "reach_words": words.reach_words,
    "reason_words": words.reason_words,
    "speed_words": words.speed_words,
    "status_mark": mark_of,
}


def render_sweep(sweep: Sweep) -> str:
    """The index. Links to the items' reports are relative: it belongs into the sweep's folder."""
    return page("sweep.html.jinja", SweepPage(sweep), more=("tables", "sweep"), filters=_FILTERS)


def render_diff(comparison: SweepComparison) -> str:
    """The page of two sweeps, compared."""
    return page("sweep_diff.html.jinja", SweepDiffPage(comparison), more=("tables",), filters=_FILTERS)


def diff_json(comparison: SweepComparison) -> str:
    """The comparison as `dynalyze diff --json` writes it."""
    return document(comparison, SCHEMA_VERSION, words.diff_verdict(comparison))
