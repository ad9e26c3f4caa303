"""From the run of an item to its row: the status, the error and its place, the counts.

compile_error is said only of what works in eager: a model of a library ran there before it was compiled, a call
that raised in the compiler was made again in eager, and an object whose compiled call failed is called once more
without compiling. Where nothing at all was compiled, no status speaks of a full graph.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from dynalyze.capture import events
from dynalyze.events.log import RunLog
from dynalyze.files.paths import below, package_path
from dynalyze.report import GraphBreak, Location, Report
from dynalyze.report.measurements import Measurement
from dynalyze.sweep.records import Item, Row, RowBreak, Speed, Status

_MODEL_OF_A_LIBRARY = re.compile(
    r"transformers/models/[^/]+/(?:modeling|modular)_[^/]+\.py$|/site-packages/[^/]+/models/(?!_|modeling_)(?:[^/]+/)*[^/]+\.py$"
)
_COMPILERS = re.compile(r"/torch/(?:_dynamo|_inductor|_functorch|fx|_higher_order_ops|_subclasses)/")
_OF_TORCH = re.compile(r"/(?:site|dist)-packages/torch/")
# Exceptions that only the compiler raises; a program's own class of that name would have to be called from torch.
_OF_COMPILERS = (
    "BackendCompilerFailed", "InductorError", "InternalTorchDynamoError", "TorchRuntimeError", "Unsupported",
    "UserError", "FailOnRecompileLimitHit", "ConstraintViolationError",
)  # fmt: skip

_LONGEST_ERROR = 500


def portable(file: str, root: str = "") -> str:
    """The file's path from its package on, else from `root`, the folder of the sweep, else its name."""
    if (library := package_path(file)) is not None:
        return library
    path = Path(file)
    package = path.parent
    while (package / "__init__.py").is_file() and package != package.parent:
        package = package.parent
    if package != path.parent:
        return path.relative_to(package).as_posix()
    return below(file, root) or path.name if path.is_absolute() else file.replace("\\", "/")


def caller(found: GraphBreak, root: str, own_file: str | None) -> str:
    """The model's own line that led to a break, "path:line"; empty where the break is on a line of its own."""
    if _is_own(found.location, own_file):
        return ""
    line = next((line for line in reversed(found.stack) if _is_own(line, own_file)), None)
    if line is None or (line.file, line.line) == (found.location.file, found.location.line):
        return ""
    return f"{portable(line.file, root)}:{line.line}"


def _is_own(line: Location, own_file: str | None) -> bool:
    """Whether a line is the model's own: in `own_file`, in a library of models, or in code of a checkpoint."""
    if own_file is not None and Path(line.file).name == Path(own_file).name:
        return True
    if _MODEL_OF_A_LIBRARY.search(line.file.replace("\\", "/")):
        return True
    return own_file is None and "transformers_modules" in line.file


@dataclass(frozen=True)
class ItemVerdict:
    """`unsure`: only a call without compiling shows whether it is the compiler's fault."""

    status: Status
    error: str | None = None
    file: str = ""
    line: int = 0
    unsure: bool = False


def judge_run(item: Item, report: Report, log: RunLog, exceeded: int | None = None) -> ItemVerdict:
    """The status of an item and its error; `exceeded` is the limit of memory, in bytes, that it was ended for."""
    if exceeded is not None:
        return ItemVerdict(
            "crash", f"ended by the sweep: it held more than {exceeded / (1 << 30):.2g} GiB of memory (--memory)"
        )
    if (lost := _lost(report, log)) is not None:
        return lost
    failed = report.outcome.failed_stage
    if failed is not None:
        status: Status = "eager_error" if failed.stage == "eager" else "create_error"
        return ItemVerdict(status, f"{failed.stage}: {failed.message or failed.exception}", failed.file, failed.line)
    if (error := _error_of_program(item, log)) is not None:
        return error
    # What a program's calls raised under compile alone is the compiler's doing.
    in_place = next((event for _, event in log.all() if isinstance(event, events.InPlaceFailed)), None)
    if in_place is not None:
        return ItemVerdict("compile_error", in_place.error)
    if report.outcome.status == "nothing_compiled" or not (report.graphs or report.graph_breaks):
        refused = next(
            (event.refused for _, event in log.all() if isinstance(event, events.ObjectCall) and event.refused), ""
        )
        why = refused or report.outcome.message or next((f.explanation for f in report.skipped_frames), "")
        status = "create_error" if log.last(events.Definitions) is not None else "compile_error"
        return ItemVerdict(status, f"nothing was compiled: {why}" if why else "nothing was compiled")
    failures = [each for each in report.compilations if each.status == "failed"]
    if failures and not report.graph_breaks:
        place = failures[0].location
        return ItemVerdict("compile_error", f"{place.function}: {failures[0].reason}", place.file, place.line)
    return ItemVerdict("graph_break" if report.graph_breaks else "full_graph")


def after_eager(verdict: ItemVerdict, *, works: bool) -> ItemVerdict:
    """An unsure verdict, once it is known whether the item works without compiling."""
    return replace(verdict, status="compile_error" if works else "eager_error", unsure=False)


def _lost(report: Report, log: RunLog) -> ItemVerdict | None:
    status, message = report.outcome.exit_status, report.outcome.message
    if report.outcome.status == "timed_out":
        return ItemVerdict("timeout", message)
    if status is not None and (status < 0 or (status and log.last(events.TargetEnded) is None)):
        program = log.last(events.ProgramEnded)
        if status > 0 and program is not None and program.exit_status == status:
            return None
        hint = " The kernel does that where memory runs out." if status == -signal.SIGKILL else ""
        return ItemVerdict("crash", message + hint)
    return None


def _error_of_program(item: Item, log: RunLog) -> ItemVerdict | None:
    ending = log.last(events.TargetEnded) or log.last(events.ProgramEnded)
    if ending is None or ending.exit_status == 0 or ending.stopped:
        return None
    message = ending.message or ending.exception or f"it ended with exit status {ending.exit_status}"
    found = ItemVerdict("eager_error", message, ending.file, ending.line)
    # With the innermost line outside torch that the compiler was at, where that is known.
    frames = [frame for _, event in log.all() if isinstance(event, events.ErrorSeen) for frame in event.inside]
    own = next((frame for frame in reversed(frames) if not _OF_TORCH.search(frame.file.replace("\\", "/"))), ending)
    refused = replace(found, status="compile_error", file=own.file, line=own.line)
    if item.spec.mode == "library":
        return refused
    if item.spec.mode == "object" and log.last(events.ObjectStarted) is None:
        return replace(found, status="create_error")
    if not any(isinstance(event, events.CompileStarted) for _, event in log.all()):
        return found
    if item.spec.mode == "object":
        return replace(refused, unsure=True)
    ours = ending.exception in _OF_COMPILERS or _COMPILERS.search(ending.file.replace("\\", "/"))
    return refused if ours else found


def row_of(item: Item, report: Report, verdict: ItemVerdict, peak_memory: int | None = None) -> Row:
    model = report.target.model
    error_at = f"{portable(verdict.file, item.root)}:{verdict.line}" if verdict.error and verdict.file else ""
    return Row(
        target=item.target, status=verdict.status, graph_breaks=len(report.graph_breaks),
        recompiles=len(report.recompiles), seconds=report.outcome.seconds, report=None, error=one_line(verdict.error),
        key=item.key, configuration=item.configuration, settings=item.settings,
        family=family(item) if model is None else model.family, class_name="" if model is None else model.class_name,
        parameters=0 if model is None else model.parameters,
        graphs=len(report.graphs), ops=sum(graph.ops for graph in report.graphs),
        breaks=[_break(found, item.root, item.spec.path) for found in report.graph_breaks], error_at=error_at,
        speeds=[_speed(each) for each in report.measurements if each.configuration != "eager"],
        peak_memory=peak_memory,
    )  # fmt: skip


def bare_row(item: Item, status: Status, error: str, attempts: int = 1) -> Row:
    return Row(
        item.target, status, 0, 0, 0.0, None, one_line(error), item.key, item.configuration, item.settings,
        family=family(item), attempts=attempts,
    )  # fmt: skip


def family(item: Item) -> str:
    """What an item is grouped by until its model is known: the folder of its file, or the package of its module."""
    if item.spec.path is not None:
        folder = Path(item.spec.path).parent
        return folder.name if str(folder) == item.root else portable(str(folder), item.root)
    return (item.spec.module or "").partition(".")[0]


def one_line(text: str | None) -> str | None:
    if not text:
        return None
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ERROR else line[: _LONGEST_ERROR - 1] + "…"


def _break(found: GraphBreak, root: str, own_file: str | None) -> RowBreak:
    place = found.location
    return RowBreak(
        found.gb_type, one_line(found.explanation) or found.gb_type, place.file, place.line,
        path=portable(place.file, root), function=place.function, code=place.code, gb_id=found.gb_id,
        effect=found.effect, caller=caller(found, root, own_file),
    )  # fmt: skip


def _speed(measured: Measurement) -> Speed:
    """With numbers only where the benchmark claims a difference."""
    found = measured.speedup
    if found is None or found.verdict == "no difference shown":
        return Speed(measured.configuration, measured.status if found is None else found.verdict)
    return Speed(measured.configuration, found.verdict, found.ratio.value, found.ratio.low, found.ratio.high)
