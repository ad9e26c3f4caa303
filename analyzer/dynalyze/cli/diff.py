"""`dynalyze diff`: what a change fixed, broke and left alone, between two saved reports, or two sweeps."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalyze.cli.files import check_found, read_report, write_found
from dynalyze.cli.options import shown_options
from dynalyze.text.errors import UsageError

if TYPE_CHECKING:
    from dynalyze.comparison.types import Comparison
    from dynalyze.sweep.compare import SweepComparison

_HINT = "; dynalyze explain and dynalyze report write one with --json, dynalyze sweep writes a sweep"
_OF_REPORTS = {
    "text": ("render.comparison_text", "render_comparison"), "html": ("render.html", "render_comparison"),
    "json": ("render.comparison_text", "render_comparison_json"),
}  # fmt: skip
_OF_SWEEPS = {
    "text": ("sweep.terminal", "render_diff"), "json": ("sweep.pages", "diff_json"),
    "html": ("sweep.pages", "render_diff"),
}  # fmt: skip


@click.command()
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--json", "json_file", metavar="FILE", help="Write the comparison as JSON; - for standard output.")
@click.option("--html", "html_file", metavar="FILE", help="Write the comparison as a page to FILE.")
@click.option(
    "--fail-on", type=click.Choice(["regression", "none"]), default="none", show_default=True,
    help="regression: exit 1 where AFTER is worse.",
)  # fmt: skip
@shown_options(" of the comparison")
def diff(before: str, after: str, json_file: str | None, html_file: str | None, fail_on: str, **shown: bool) -> int:
    """Compare two report JSONs that `dynalyze explain --json` wrote, or two sweeps. Needs no torch.

    Graph breaks, recompiles and compilations are matched by cause and by the code itself, so lines may have
    moved, and the two may come from two checkouts. A sweep is its --json file or its folder; its items are
    matched by target and configuration.

    \b
    Worse, for --fail-on regression, is
      a new graph break, or one with a worse effect
      a new recompile (function, cause, source), or the recompile limit
      a function that now falls back to eager, or fails to compile
      a run that now fails, runs out of time or compiles nothing
      of a sweep, an item with a worse status, or with a new graph break
    """
    from dynalyze.sweep.folder import is_sweep

    outputs = {"json_file": json_file, "html_file": html_file}
    check_found(outputs, before, after)
    first, second = Path(before), Path(after)
    sweeps = [is_sweep(path) for path in (first, second)]
    if all(sweeps):
        comparison: Comparison | SweepComparison = _sweeps(first, second, **shown)
    elif any(sweeps):
        sweep, other = (first, second) if sweeps[0] else (second, first)
        read_report(other, hint=_HINT)  # What cannot be read at all is refused as such.
        raise UsageError(f"{sweep} is a sweep and {other} is not: compare two reports, or two sweeps")
    else:
        comparison = _reports(first, second, **shown)
    write_found(outputs, *(partial(_rendered, comparison, kind) for kind in ("html", "json", "text")))
    return 1 if fail_on == "regression" and comparison.regressions else 0


def _rendered(comparison: Comparison | SweepComparison, kind: str, **options: Any) -> str:
    """The comparison as text, JSON or a page; only that renderer is loaded."""
    from dynalyze.comparison.types import Comparison

    renderers = _OF_REPORTS if isinstance(comparison, Comparison) else _OF_SWEEPS
    module, function = renderers[kind]
    return str(getattr(importlib.import_module(f"dynalyze.{module}"), function)(comparison, **options))


def _reports(before: Path, after: Path, *, no_source: bool, redact: bool, show_values: bool) -> Comparison:
    from dynalyze import privacy
    from dynalyze.comparison.reports import compare

    first, second = (
        privacy.showable(read_report(path, hint=_HINT), no_source=False, redact=False, show_values=True)
        for path in (before, after)
    )
    return privacy.cleaned(compare(first, second), no_source=no_source, show_values=show_values, redacted=redact)


def _sweeps(before: Path, after: Path, *, no_source: bool, redact: bool, **_: bool) -> SweepComparison:
    from dynalyze.sweep.compare import compare
    from dynalyze.sweep.folder import read_sweep
    from dynalyze.sweep.shown import shown

    first, second = (shown(read_sweep(path), no_source=False, redact=False) for path in (before, after))
    return shown(compare(first, second), no_source=no_source, redact=redact)
