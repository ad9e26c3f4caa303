"""`dynalyze diff`: what a change fixed, broke and left alone, between two saved reports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dynalyze.cli.files import check_writable, same_file, write_whole
from dynalyze.errors import UsageError

if TYPE_CHECKING:
    from dynalyze.comparison.types import Comparison


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
    """Compare two report JSONs that `dynalyze explain --json` wrote. Needs no torch.

    Graph breaks, recompiles and compilations are matched by cause and by the code itself, so lines may have
    moved, and the two may come from two checkouts.

    \b
    Worse, for --fail-on regression, is
      a new graph break, or one with a worse effect
      a new recompile (function, cause, source), or the recompile limit
      a function that now falls back to eager, or fails to compile
      a run that now fails, runs out of time or compiles nothing
    """
    from dynalyze.cli.outputs import showable
    from dynalyze.cli.saved import read_report
    from dynalyze.comparison import compare

    _check_outputs(json_file, html_file, (before, after))
    hint = "; dynalyze explain and dynalyze report write one with --json"
    first, second = (read_report(Path(file), hint=hint) for file in (before, after))
    comparison = compare(first, second, lambda report: showable(report, **shown))
    _write(comparison, json_file, html_file)
    return 1 if fail_on == "regression" and comparison.regressions else 0


def _check_outputs(json_file: str | None, html_file: str | None, sources: tuple[str, str]) -> None:
    for option, file in (("--json", json_file), ("--html", html_file)):
        for source in sources:
            if file is not None and not (option == "--json" and file == "-"):
                check_writable(option, file, source)
    if json_file and html_file and same_file(json_file, html_file):
        raise UsageError(f"--json and --html both name {json_file}")


def _write(comparison: Comparison, json_file: str | None, html_file: str | None) -> None:
    from dynalyze.render import comparison_json, comparison_text

    document = comparison_json.render(comparison) if json_file else ""
    if json_file is not None and json_file != "-":
        write_whole(Path(json_file), document)
    if html_file is not None:
        from dynalyze.render import comparison_html

        write_whole(Path(html_file), comparison_html.render(comparison))
    if json_file == "-":
        sys.stdout.write(document)
        sys.stdout.flush()
    else:
        files = [(name, file) for name, file in (("Page", html_file), ("JSON", json_file)) if file is not None]
        click.echo(comparison_text.render(comparison, files=files), nl=False)
