"""`dynalyze upgrade`: what another torch changes for a program."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dynalyze.bench import DEFAULT_PAIRS
from dynalyze.cli.explain import short_bench
from dynalyze.cli.files import check_found, write_found
from dynalyze.cli.options import (
    Sectioned,
    count_option,
    given_observation,
    rerun_options,
    seconds_option,
    shown_options,
)
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say

if TYPE_CHECKING:
    from dynalyze.comparison.types import Upgrade
    from dynalyze.report import Report


@click.command(cls=Sectioned)
@rerun_options
@click.option("--from", "from_python", metavar="PATH", help="The interpreter of today. [default: that of dynalyze]")
@click.option("--to", "to_python", metavar="PATH", help="The interpreter with the other torch.")
@click.option("--no-bench", is_flag=True, help="Do not measure speed and outputs.")
@seconds_option("--bench-seconds", "The most that measuring both may take.", 120.0)
@count_option("--pairs", "The most pairs of processes; below 3 no difference can be shown.", DEFAULT_PAIRS)
@click.option("--json", "json_file", metavar="FILE", help="Write what was found as JSON; - for standard output.")
@click.option("--html", "html_file", metavar="FILE", help="Write the page of `dynalyze diff` for the two runs.")
@click.option(
    "--fail-on", type=click.Choice(["regression", "none"]), default="none", show_default=True,
    help="regression: exit 1 where something is worse.",
)  # fmt: skip
@shown_options(" of what is written")
@click.pass_context
def upgrade(context: click.Context, /, **options: Any) -> int:
    """Compare two torch versions for TARGET: what is worse, better or the same, each with its line.

    \b
    dynalyze upgrade model.py --from .venv/bin/python --to .new/bin/python

    TARGET is one of `dynalyze explain`. Each interpreter runs it with empty caches, and the reports are compared as
    `dynalyze diff` does it; what is worse is run once more. Then processes of both take turns: a difference in speed is
    reported where it is larger than that between the first and itself.

    \b
    Worse, for --fail-on regression, is
      what `dynalyze diff` calls a regression, in both pairs of runs
      slower calls, other answers
    """
    from dynalyze.cli.outputs import exit_status
    from dynalyze.launch.interrupts import Interrupts
    from dynalyze.privacy import cleaned
    from dynalyze.render.comparison_text import render_upgrade, render_upgrade_json
    from dynalyze.render.html import render_comparison

    check_found(options)
    with Interrupts():
        found, reports = _found(context)
    shown = cleaned(
        found, no_source=options["no_source"], show_values=options["show_values"], redacted=options["redact"]
    )
    page, document = partial(render_comparison, shown.comparison), partial(render_upgrade_json, shown)
    write_found(options, page, document, partial(render_upgrade, shown))
    failed = options["fail_on"] == "regression" and found.is_worse
    return exit_status([each.outcome.status for each in reports], failed=failed)


def _found(context: click.Context) -> tuple[Upgrade, list[Report]]:
    from dynalyze import privacy
    from dynalyze.upgrade.run import upgrade as run_upgrade

    options = context.params
    if options["python"] is not None:
        raise UsageError("--python is one interpreter: name two, with --from and --to")
    if options["to_python"] is None:
        raise UsageError("name the interpreter with the other torch: --to PATH")
    observation = given_observation(context, options["target"], options["arguments"])
    plan = None
    if not options["no_bench"]:
        plan = replace(short_bench(options, observation.target), pairs=options["pairs"], recorded=False)
    return run_upgrade(
        observation, (options["from_python"] or sys.executable, options["to_python"]), plan,
        lambda report: privacy.showable(report, no_source=False, show_values=True, redact=False), say,
    )  # fmt: skip
