"""`dynalyze watch`: a flight recorder for long jobs."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalyze.cli.options import Sectioned, output_options
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say

if TYPE_CHECKING:
    from dynalyze.watch.live import LiveView
    from dynalyze.watch.metrics import JobMetrics
    from dynalyze.watch.records import Notice
    from dynalyze.watch.run import Watcher
    from dynalyze.watch.tensorboard import Board

_RULES = ("recompile", "compile", "compiling", "limit", "cache-miss", "memory", "diverged")
_REPORTS = Path("dynalyze-reports")


@click.command(cls=Sectioned, context_settings={"ignore_unknown_options": False})
@click.argument("arguments", nargs=-1, required=True, metavar="DIR | -- COMMAND...", type=click.UNPROCESSED)
@click.option("--folder", metavar="DIR", help="Where the job's records go. [default: dynalyze-reports/NAME.watch]")
@click.option(
    "--megabytes", type=click.IntRange(1), default=256, show_default=True, metavar="N",
    help="Room for the records.",
)  # fmt: skip
@click.option("--alert", metavar="COMMAND", help="Run it for each line, with JSON on its standard input.")
@click.option("--alert-url", metavar="URL", help="POST the same to this machine's own network.")
@click.option(
    "--fail-fast", "rules", multiple=True, metavar="RULE", type=click.Choice(_RULES),
    help=f"End the job at the first line of this kind: {', '.join(_RULES)}; repeatable.",
)  # fmt: skip
@click.option("--metrics-port", metavar="[ADDRESS:]PORT", help="Serve counts by rank to Prometheus, at 127.0.0.1.")
@click.option("--tensorboard", metavar="DIR", help="Write curves of each rank for TensorBoard.")
@output_options
@click.pass_context
def watch(context: click.Context, /, arguments: tuple[str, ...], **options: Any) -> int:
    """Tell recompiles of a long job by rank and step while they happen, and what the other ranks waited for them.

    \b
      dynalyze watch -- torchrun --nproc-per-node 8 train.py
      dynalyze watch -- -m package.train --config large.yaml
      dynalyze watch DIR      the folder of a job that runs, or has ended; or
                              the one that TORCH_TRACE of a job names

    A job that somebody else starts is watched where DYNALYZE_WATCH=DIR is in its environment and its program has
    `import dynalyze.auto` at its top. Steps are those of the optimizer, else calls of dynalyze.step(), else calls of
    what is compiled. A line is written to standard output for each compile after a rank has made ten steps without
    one, and wherever the recompile limit is reached; the job's own output goes to standard error. The job is never
    held up: it runs on where this command is killed.
    """
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.logs import report_from_logs
    from dynalyze.watch.follow import is_job, trace_logs
    from dynalyze.watch.report import job_report
    from dynalyze.watch.run import job_command, job_name, start_folder, watch_command, watch_folder

    follows = len(arguments) == 1 and Path(arguments[0]).is_dir()
    if follows and options["folder"] is not None:
        raise UsageError(f"--folder is for a job that is started; {arguments[0]} is followed where it is")
    command = [] if follows else job_command(arguments)
    name = Path(arguments[0]).resolve().name.removesuffix(".watch") if follows else job_name(command)
    folder = Path(arguments[0] if follows else options["folder"] or _new_folder(name))
    outputs = Outputs(options, name)
    if follows and not any(folder.iterdir()):
        say(f"waiting for a job to write to {folder}")
    elif follows and not is_job(folder) and not trace_logs(folder):
        raise UsageError(f"{folder} holds no records of a watched job, nor logs that torch wrote under TORCH_TRACE")
    with contextlib.ExitStack() as stack:
        watcher = _watcher(folder, options, stack, live=follows)
        if follows:
            watch_folder(watcher)
            ended = None
        else:
            start_folder(folder, command)
            say(f"the job's records are in {folder}")
            ended = watch_command(command, folder, options["megabytes"] << 20, watcher)
    if trace_logs(folder):
        report = report_from_logs(folder, (), sys.argv[1:])
    else:
        report = job_report(folder, sys.argv[1:], ended)
    status = outputs.publish(report)
    if watcher.failed is not None:
        say(f"--fail-fast {watcher.failed.kind}: {'the job was ended' if ended is not None else 'met'}")
        return 1
    return status


def _watcher(folder: Path, options: dict[str, Any], stack: contextlib.ExitStack, *, live: bool) -> Watcher:
    """The watcher with all that its notices and ranks go to; `live`: a table of ranks, on a terminal."""
    from dynalyze.watch.alerts import Alerts
    from dynalyze.watch.run import Watcher

    streamed = "-" in (options["json_file"], options["markdown"])
    alerts = Alerts(options["alert"], options["alert_url"])
    stack.callback(alerts.close)
    view: LiveView | None = None
    board: Board | None = None
    metrics: JobMetrics | None = None
    if live and not streamed and sys.stdout.isatty():
        from dynalyze.watch.live import LiveView

        view = stack.enter_context(LiveView())
    if options["tensorboard"] is not None:
        from dynalyze.watch.tensorboard import Board

        board = Board(Path(options["tensorboard"]))

    def tell(notice: Notice, line: str) -> None:
        if view is not None:
            view.tell(line)
        elif streamed:
            say(line)
        else:
            print(line, flush=True)
        alerts.send(notice, line)
        if metrics is not None:
            metrics.count(notice)

    hidden = {name: options[name] for name in ("no_source", "redact", "show_values")}
    shown_by = [each.show for each in (view, board) if each is not None]
    watcher = Watcher(folder, tell, options["rules"], shown_by=shown_by, **hidden)
    if board is not None:
        stack.callback(lambda: board.close(watcher.rows()))
    if options["metrics_port"] is not None:
        from dynalyze.watch.metrics import JobMetrics

        metrics = JobMetrics(watcher.job, options["metrics_port"])
        stack.callback(metrics.close)
    return watcher


def _new_folder(name: str) -> Path:
    folder, number = _REPORTS / f"{name}.watch", 1
    while folder.exists():
        number += 1
        folder = _REPORTS / f"{name}.watch.{number}"
    return folder
