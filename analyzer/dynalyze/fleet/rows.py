"""From the report of an item to its row. The status is decided in `statuses.py`."""

from __future__ import annotations

from pathlib import Path

from dynalyze.fleet.items import Item
from dynalyze.fleet.places import caller, portable
from dynalyze.fleet.statuses import Verdict, error_place
from dynalyze.report import GraphBreak, Report
from dynalyze.report.measurements import Measurement
from dynalyze.sweep.records import Row, RowBreak, Speed, Status

_LONGEST_ERROR = 500


def row_of(item: Item, report: Report, verdict: Verdict, seconds: float, peak_memory: int | None) -> Row:
    """The row of an item that ran, from its report as it may be shown."""
    model = report.target.model
    own_file = item.spec.path
    return Row(
        target=item.target,
        status=verdict.status,
        graph_breaks=len(report.graph_breaks),
        recompiles=len(report.recompiles),
        seconds=round(seconds, 3),
        report=None,
        error=one_line(verdict.error),
        key=item.key,
        configuration=item.configuration,
        settings=item.settings,
        family=model.family if model is not None else family(item),
        class_name=model.class_name if model is not None else "",
        parameters=model.parameters if model is not None else 0,
        graphs=len(report.graphs),
        ops=sum(graph.ops for graph in report.graphs),
        breaks=[_break(found, item.root, own_file) for found in report.graph_breaks],
        error_at=error_place(report, verdict, item.root),
        speeds=[_speed(each) for each in report.measurements if each.configuration != "eager"],
        peak_memory=peak_memory,
        notes=list(verdict.notes),
    )


def bare_row(item: Item, status: Status, error: str, seconds: float = 0.0, attempts: int = 1) -> Row:
    """The row of an item that left nothing to read."""
    return Row(
        item.target, status, 0, 0, round(seconds, 3), None, one_line(error), item.key, item.configuration,
        item.settings, family=family(item), attempts=attempts,
    )  # fmt: skip


def family(item: Item) -> str:
    """What an item is grouped by until its model is known: the folder of its file, or the package of its module."""
    if item.spec.path is not None:
        folder = Path(item.spec.path).parent
        return folder.name if str(folder) == item.root else portable(str(folder), item.root)
    return (item.spec.module or "").partition(".")[0]


def one_line(text: str | None) -> str | None:
    """An error as one line of a table."""
    if not text:
        return None
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ERROR else line[: _LONGEST_ERROR - 1] + "…"


def _break(found: GraphBreak, root: str, own_file: str | None) -> RowBreak:
    place = found.location
    return RowBreak(
        gb_type=found.gb_type,
        reason=one_line(found.explanation) or found.gb_type,
        file=place.file,
        line=place.line,
        path=portable(place.file, root),
        function=place.function,
        code=place.code,
        gb_id=found.gb_id,
        effect=found.effect,
        caller=caller(found, root, own_file),
    )


def _speed(measured: Measurement) -> Speed:
    """Numbers only where the benchmark claims a difference."""
    found = measured.speedup
    if found is None:
        return Speed(measured.configuration, measured.status)
    if found.verdict == "no difference shown":
        return Speed(measured.configuration, found.verdict)
    return Speed(measured.configuration, found.verdict, found.ratio.value, found.ratio.low, found.ratio.high)
