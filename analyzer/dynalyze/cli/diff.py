"""`dynalyze diff`: what a change fixed, broke and left alone, between two saved reports, or two sweeps."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalyze.cli.files import check_writable, print_document, print_summary, read_report, same_file, write_whole
from dynalyze.text.errors import UsageError

if TYPE_CHECKING:
    from dynalyze.comparison.sweeps import SweepComparison
    from dynalyze.comparison.types import Comparison

_HINT = "; dynalyze explain and dynalyze report write one with --json, dynalyze sweep writes a sweep"


@dataclass(frozen=True)
class _Compared:
    """A comparison, and the function of each renderer that tells it."""

    comparison: Comparison | SweepComparison
    function: str

    def render(self, kind: str, **options: Any) -> str:
        """The comparison as text, JSON or a page; only that renderer is loaded."""
        renderer = importlib.import_module(f"dynalyze.render.{'html' if kind == 'html' else f'comparison_{kind}'}")
        text = getattr(renderer, self.function)(self.comparison, **options)
        assert isinstance(text, str)
        return text


@click.command()
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--json", "json_file", metavar="FILE", help="Write the comparison as JSON; - for standard output.")
@click.option("--html", "html_file", metavar="FILE", help="Write the comparison as a page to FILE.")
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "none"]),
    default="none",
    show_default=True,
    help="regression: exit 1 where AFTER is worse.",
)
@click.option("--no-source", is_flag=True, help="Leave every line of your code out of the comparison.")
@click.option("--redact", is_flag=True, help="Leave home folder, user and host names out.")
@click.option("--show-values", is_flag=True, help="Show long strings that guards compare with.")
def diff(
    before: str,
    after: str,
    json_file: str | None,
    html_file: str | None,
    fail_on: str,
    **shown: bool,
) -> int:
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
    from dynalyze.fleet.folder import is_sweep

    _check_outputs(json_file, html_file, (before, after))
    first, second = Path(before), Path(after)
    sweeps = [is_sweep(path) for path in (first, second)]
    if all(sweeps):
        compared = _sweeps(first, second, **shown)
    elif any(sweeps):
        sweep, other = (first, second) if sweeps[0] else (second, first)
        read_report(other, hint=_HINT)  # What cannot be read at all is told as such.
        raise UsageError(f"{sweep} is a sweep and {other} is not: compare two reports, or two sweeps")
    else:
        compared = _reports(first, second, **shown)
    _write(compared, json_file, html_file)
    return 1 if fail_on == "regression" and compared.comparison.regressions else 0


def _reports(before: Path, after: Path, **shown: bool) -> _Compared:
    from dynalyze import privacy
    from dynalyze.cli.outputs import showable
    from dynalyze.comparison.reports import compare

    first, second = (read_report(path, hint=_HINT) for path in (before, after))
    comparison = compare(first, second, lambda report: showable(report, **shown))
    return _Compared(privacy.redact(comparison) if shown["redact"] else comparison, "render_comparison")


def _sweeps(before: Path, after: Path, *, no_source: bool, redact: bool, **_: bool) -> _Compared:
    """Long values were hidden, or not, when the sweeps ran."""
    from dynalyze import privacy
    from dynalyze.comparison.sweeps import compare
    from dynalyze.fleet.folder import read_sweep
    from dynalyze.privacy.sweep import without_source

    first, second = (privacy.mask_secrets(read_sweep(path)) for path in (before, after))
    comparison = compare(first, second)
    if no_source:
        comparison = without_source(comparison)
    return _Compared(privacy.redact(comparison) if redact else comparison, "render_sweep_diff")


def _check_outputs(json_file: str | None, html_file: str | None, sources: tuple[str, str]) -> None:
    for option, file in (("--json", json_file), ("--html", html_file)):
        for source in sources:
            if file is not None and not (option == "--json" and file == "-"):
                check_writable(option, file, source)
    if json_file and html_file and same_file(json_file, html_file):
        raise UsageError(f"--json and --html both name {json_file}")


def _write(compared: _Compared, json_file: str | None, html_file: str | None) -> None:
    document = compared.render("json") if json_file else ""
    if json_file is not None and json_file != "-":
        write_whole(Path(json_file), document)
    if html_file is not None:
        write_whole(Path(html_file), compared.render("html"))
    if json_file == "-":
        print_document(document)
    else:
        files = [(name, file) for name, file in (("Page", html_file), ("JSON", json_file)) if file is not None]
        print_summary(compared.render("text", files=files))
