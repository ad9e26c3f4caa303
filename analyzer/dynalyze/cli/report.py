"""`dynalyze report`: renders a saved report again, or reads logs of torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalyze import registry
from dynalyze.cli.options import Sectioned, artifacts_option, brief_option, check_fail_on, output_options
from dynalyze.text.errors import UsageError

if TYPE_CHECKING:
    from dynalyze.report import Report


@click.command(cls=Sectioned)
@click.argument("source", metavar="INPUT")
@output_options
@brief_option
@artifacts_option
@click.option(
    "--source-root", "roots", multiple=True, metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Open source files that a log names, below DIR, where the log has their hash; repeatable.",
)  # fmt: skip
def report(source: str, roots: tuple[Path, ...], **options: Any) -> int:
    """Render INPUT: a report JSON that `dynalyze explain --json` wrote, a log that torch wrote under
    TORCH_TRACE=DIR, DIR itself with the logs of several processes or ranks, or the folder of a watched job, also
    while it runs. Needs no torch.

    The facts are judged by the rules of this version. No file that a log names is opened.
    """
    from dynalyze.cli.files import read_report
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.logs import holds_records, log_files, report_from_logs

    check_fail_on(options["fail_on"])
    path = Path(source)
    stem = path.resolve().stem.removesuffix(".dynalyze")
    if path.is_dir() and (read := _by_feature(path)) is not None:
        if options["artifacts"] is not None:
            raise UsageError("--artifacts needs a log: the records of a watched job hold no code")
        return Outputs(options, stem).publish(read)
    if not (path.is_dir() or holds_records(path)):
        if options["artifacts"] is not None:
            raise UsageError("--artifacts needs a log: a report JSON does not hold all code")
        outputs = Outputs(options, stem, source)
        return outputs.publish(read_report(path, "a report of dynalyze, nor a TORCH_TRACE log"))
    for file in log_files(path):
        outputs = Outputs(options, stem, str(file))
    return outputs.publish(report_from_logs(path, roots, sys.argv[1:], outputs.keep()))


def _by_feature(folder: Path) -> Report | None:
    """The report of a folder that a feature wrote; None for other folders."""
    read = (each.report_in(folder, sys.argv[1:]) for each in registry.modules("report"))
    return next((report for report in read if report is not None), None)
