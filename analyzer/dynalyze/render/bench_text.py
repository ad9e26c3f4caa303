"""Measurements on the terminal: a row with a bar for each configuration, grouped by what was run.

Where the terminal is too narrow for a table each configuration is a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.report.measurements import Accuracy, Measurement, Speedup, SpeedVerdict
from dynalyze.text.amounts import milliseconds, three_digits
from dynalyze.words import bench as words

_NARROWEST = 80
_LONGEST_NAME, _SHORTEST_NAME, _BAR = 13, 7, 8
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# Heading, width, and whether it stands at the right of its column.
_COLUMNS = (
    ("time", 8, True), ("", _BAR, False), ("speed-up", 15, False), ("compile", 7, True), ("pays at", 7, True),
    ("memory", 7, True), ("answers", 8, False),
)  # fmt: skip
_STYLES: dict[SpeedVerdict, str] = {"faster": "green", "slower": "yellow", "no difference shown": "dim"}
_LEGEND = (
    "time: median of a pass. speed-up: by eager, with its 95 % interval. compile: what the first calls took beyond "
    "steady ones. pays at: passes until that is saved. memory: peak against eager. answers: set against fp64."
)


@dataclass(frozen=True)
class _Row:
    """A configuration in the table; `trouble` stands in the place of numbers."""

    name: str
    cells: tuple[str, ...] = ()
    style: str = ""
    trouble: str = ""


def add(summary: Summary, measurements: Sequence[Measurement], accuracy: Sequence[Accuracy] = ()) -> None:
    """Add the table of all measurements to a summary; nothing where there are none."""
    groups = words.by_workload(measurements)
    for workload, items in groups.items():
        summary.line(one_line(_heading(workload, items)), style="bold")
        if summary.width < _NARROWEST:
            _sentences(summary, items, accuracy)
        else:
            _table(summary, [_row(item, items, accuracy) for item in items])
            _remarks(summary, _not_shown(items))
        _remarks(summary, [*_rates(items), *words.notes(items)])
        summary.line()
    if groups and summary.width >= _NARROWEST:
        summary.line(_LEGEND, style="dim")
        summary.line()


def _heading(workload: words.Workload, items: Sequence[Measurement]) -> str:
    return f"{words.capital(words.workload_words(workload))}: {words.conditions(items)}".removesuffix(": ")


def _sentences(summary: Summary, items: Sequence[Measurement], accuracy: Sequence[Accuracy]) -> None:
    for item in items:
        summary.indented(Text(one_line(words.sentence(item, words.accuracy_of(item, accuracy)))))


def _row(item: Measurement, items: Sequence[Measurement], accuracy: Sequence[Accuracy]) -> _Row:
    name = one_line(item.configuration)
    if item.status != "valid" or item.latency_ms is None:
        return _Row(name, trouble=words.failure(item))
    slowest = max((each.latency_ms.p50 for each in items if each.status == "valid" and each.latency_ms), default=0.0)
    bar = _bar(item.latency_ms.p50 / slowest if slowest else 0.0)
    verdict = item.speedup.verdict if item.speedup else "no difference shown"
    return _Row(name, (milliseconds(item.latency_ms.p50), bar, *_gains(item, accuracy)), _STYLES[verdict])


def _gains(item: Measurement, accuracy: Sequence[Accuracy]) -> tuple[str, ...]:
    """The columns behind the bar; "" for what was not measured."""
    cost, even, memory = words.compile_cost(item), item.break_even, item.memory
    return (
        _speed(item.speedup),
        "" if cost is None else cost.short,
        "" if even is None or even.passes is None else words.short_count(even.passes),
        "" if memory is None else words.memory_short(item.configuration, memory),
        words.answers_short(words.accuracy_of(item, accuracy)),
    )


def _speed(speed: Speedup | None) -> str:
    if speed is None:
        return ""
    if speed.verdict == "no difference shown":
        return "no difference"
    low, high = (words.plain_ratio(each) for each in (speed.ratio.low, speed.ratio.high))
    return f"{words.times(speed.ratio.value)} {low}-{high}"


def _table(summary: Summary, rows: Sequence[_Row]) -> None:
    longest = max(cell_len(row.name) for row in rows)
    room = _LONGEST_NAME + max(summary.width - _NARROWEST, 0)
    name = min(max(longest, _SHORTEST_NAME), room)
    heads = [_cell(head, width, right) for head, width, right in _COLUMNS]
    if any(row.cells for row in rows):
        summary.line(Text(" ".join([" " * name, *heads]).rstrip(), style="dim"))
    for row in rows:
        _line(summary, row, name)


def _line(summary: Summary, row: _Row, name: int) -> None:
    if row.trouble:
        _trouble(summary, row)
        return
    label = row.name
    if cell_len(label) > name:
        summary.line(label)
        label = ""
    time, bar, speed, *rest = (
        _cell(text, width, right) for text, (_, width, right) in zip(row.cells, _COLUMNS, strict=True)
    )
    line = Text.assemble(
        f"{set_cell_size(label, name)} {time} ", (bar, "cyan"), " ", (speed, row.style), f" {' '.join(rest)}"
    )
    line.rstrip()
    summary.line(line)


def _trouble(summary: Summary, row: _Row) -> None:
    kind, _, reason = row.trouble.partition(": ")
    summary.line(Text.assemble(row.name, ("  ! ", "bold yellow"), one_line(kind.removeprefix("is "))))
    if reason:
        summary.indented(Text(one_line(reason)))


def _cell(text: str, width: int, right: bool) -> str:
    """A text in its column; one that is too long takes the room it needs."""
    blank = " " * max(width - cell_len(text), 0)
    return blank + text if right else text + blank


def _bar(share: float) -> str:
    eighths = max(round(share * _BAR * 8), 1)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _remarks(summary: Summary, remarks: Sequence[str]) -> None:
    for remark in remarks:
        summary.indented(Text(one_line(remark), style="dim"))


def _not_shown(items: Sequence[Measurement]) -> list[str]:
    return [
        f"{item.configuration}: {words.no_difference(item.speedup)}"
        for item in items
        if item.status == "valid" and item.speedup and item.speedup.verdict == "no difference shown"
    ]


def _rates(items: Sequence[Measurement]) -> list[str]:
    return [
        f"{name}: {', '.join(f'{who} {three_digits(value)}' for who, value in values)}"
        for name, values in words.token_rates(items).items()
    ]
