"""`dynalyze fix`: changes that end graph breaks, each verified by running the program with it."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dynalyze.cli.explain import short_bench
from dynalyze.cli.files import check_outputs, print_summary, write_whole
from dynalyze.cli.options import (
    Sectioned,
    brief_option,
    check_fail_on,
    observation_of,
    report_options,
    rerun_options,
    seconds_option,
    target_of,
)
from dynalyze.files.paths import working_folder
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say

_UNFIXED = "unfixed"


@click.command(cls=Sectioned)
@rerun_options
@report_options
@brief_option
@click.option(
    "--only", metavar="IDS", multiple=True,
    help="The graph breaks to end, by the ids of `explain`: b1,b3. [default: all]",
)  # fmt: skip
@click.option("--patch", metavar="FILE", help="Write all verified changes as one diff, for `patch -p1` or `git apply`.")
@click.option("--write", is_flag=True, help="Write verified changes into your files, all or none. [backup: FILE.orig]")
@click.option(
    "--unsafe-fixes", is_flag=True, help="Put suggested changes, which are not verified, into --write and --patch too."
)
@click.option("--write-below", metavar="DIR", hidden=True, help="Refuse --write where a file lies elsewhere.")
@click.option("--no-bench", is_flag=True, help="Do not measure the speedup.")
@seconds_option("--bench-seconds", "Measure the speedup for about this long.", 60.0)
@seconds_option("--search-seconds", "Try no more changes after this long.", 900.0)
@click.pass_context
def fix(context: click.Context, /, **options: Any) -> int:
    """Find changes that end the graph breaks of TARGET, and verify each: dynalyze runs TARGET, as `dynalyze explain`
    does, and tries changes of its source and settings of torch. Your files stay as they are without --write.

    A change is verified if its breaks are gone, none is new and no less is compiled, the recorded calls and random ones
    give the same in eager, traced and under the program's own backend, and the whole program ends, prints and leaves
    the same. For that the program runs twice unchanged and once with each set of changes, in a sandbox where there is
    one. Without a sandbox a program with outside effects (files, network, processes) is not run again, unless
    --allow-effects is given. What could not be checked is suggested, with the reason.

    --fail-on unfixed exits with 1 where a break stays.

    Without an output option the page goes to dynalyze-reports/.
    """
    from dynalyze.capture.overlay import NOTEBOOK
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.interrupts import Interrupts
    from dynalyze.render.text.fixes import patch_head, write_command

    if importlib.util.find_spec("libcst") is None:
        raise UsageError('fix needs libcst, which is not installed: pip install "dynalyze[fix]"')
    from dynalyze.fix.run import FixOptions
    from dynalyze.fix.run import fix as run_fix
    from dynalyze.fix.source_files import changed, patch_bytes
    from dynalyze.fix.write import write

    unfixed_fails = options["fail_on"] == _UNFIXED
    if unfixed_fails:
        options["fail_on"] = context.params["fail_on"] = "none"
    check_fail_on(options["fail_on"])
    target = target_of(context)
    if target.path is not None and target.path.endswith(NOTEBOOK):
        raise UsageError(
            f"fix changes files, and {target.path} is a notebook: jupyter nbconvert --to script makes a file of it"
        )
    check_outputs([("--patch", options["patch"])] if options["patch"] is not None else [], target.path)
    outputs = Outputs(options, f"{target.stem}.fix", target.path)
    plan = replace(short_bench(options, target), total=None, recorded=False)
    wanted = FixOptions(
        tuple(filter(None, ",".join(options["only"]).replace(" ", "").split(","))),
        0.0 if options["no_bench"] else options["bench_seconds"],
        options["search_seconds"],
    )
    with Interrupts():
        found = run_fix(observation_of(context, target, bundle=True), plan, wanted, say)
        report = found.report
        assert report.fixed is not None
        for file in changed(found.originals, found.texts) if options["write_below"] is not None else ():
            check_below(Path(options["write_below"]).resolve(), file)
        status = outputs.publish(report)
        texts = found.suggested if options["unsafe_fixes"] else found.texts
        if options["patch"] is not None:
            suggested = options["unsafe_fixes"] or found.cut_short
            diff = patch_bytes(found.originals, found.suggested if suggested else texts, Path(working_folder()))
            head = patch_head(report, suggested=suggested).encode(errors="backslashreplace")
            write_whole(Path(options["patch"]), head + diff)
        if options["write"]:
            said = [str(each) for each in write(found.originals, texts)] or [
                "Wrote nothing: no file has a verified change."
            ]
        else:
            said = [command] if (command := write_command(report, report.fixed)) else []
        for line in said:  # Standard output may carry the JSON alone.
            say(line) if options["json_file"] == "-" else print_summary(f"{line}\n")
    return status or int(unfixed_fails and bool(report.fixed.unfixed))


def check_below(folder: Path, file: str) -> None:
    """Refuse (UsageError) a file that lies elsewhere, or whose .orig would, links followed."""
    for each in (Path(file).resolve(), Path(f"{file}.orig").resolve()):
        if not each.is_relative_to(folder):
            raise UsageError(f"--write: {each} is not below {folder}; --patch FILE gives the change")
