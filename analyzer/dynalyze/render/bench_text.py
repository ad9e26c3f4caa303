"""Measurements on the terminal: a row with a bar for each configuration, grouped by what was run; and a plan.

Where the terminal is too narrow for a table, or a table of two rows tells no more, they are a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.render.text import bench as words
from dynalyze.render.text import plans as words_plans
from dynalyze.report.measurements import Accuracy, Measurement, SpeedVerdict
from dynalyze.report.plans import CompilePlan
from dynalyze.text.amounts import milliseconds, three_digits

_NARROWEST = 80
_LONGEST_NAME, _SHORTEST_NAME, _BAR = 13, 7, 8
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# Heading, width, and whether it stands at the right of its column.
_COLUMNS = (
    ("time", 8, True), ("", _BAR, False), ("speedup", 15, False), ("compile", 7, True), ("payback", 7, True),
    ("memory", 7, True), ("answers", 8, False),
)  # fmt: skip
_STYLES: dict[SpeedVerdict, str] = {"faster": "green", "slower": "yellow", "no difference shown": "dim"}
_LEGEND = (
    "time: median per round of the recorded calls; speedup: vs eager, 95% CI; compile: extra time of the first calls; "
    "payback: rounds until that is recovered; memory: peak vs eager; answers: vs fp64"
)


def add(
    summary: Summary, measurements: Sequence[Measurement], accuracy: Sequence[Accuracy] = (), *, brief: bool = False
) -> None:
    """Add the table of all measurements to a summary, or with `brief` a sentence; nothing where there are none."""
    groups = words.by_workload(measurements)
    brief = brief or summary.width < _NARROWEST
    for workload, items in groups.items():
        title, under = words.capital(words.workload_words(workload)), words.conditions(items)
        remarks = [
            f"{name}: {', '.join(f'{who} {three_digits(value)}' for who, value in values)}"
            for name, values in words.token_rates(items).items()
        ]
        known = [f"{item.configuration}: {memory}" for item in items if (memory := words.step_memory(item))]
        known += words.notes(items)
        if brief:
            said = [words.sentence(item, words.accuracy_of(item, accuracy)) for item in items]
            summary.line(f"{title}{f' ({under})' if under else ''}: {'; '.join([*said, *remarks, *known])}.")
        else:
            summary.line(f"{title}: {under}".removesuffix(": "), style="bold")
            _table(summary, items, accuracy)
            same = [each for each in items if each.speedup and each.speedup.verdict == "no difference shown"]
            valid = [each for each in same if each.status == "valid"]
            remarks[:0] = [
                f"{each.configuration}: {words.no_difference(each.speedup)}" for each in valid if each.speedup
            ]
            for remark in [*remarks, *known]:
                summary.indented(remark, "dim")
        summary.line()
    if groups and not brief:
        summary.line(_LEGEND, style="dim")
        summary.line()


def _table(summary: Summary, items: Sequence[Measurement], accuracy: Sequence[Accuracy]) -> None:
    medians = {at: each.latency_ms.p50 for at, each in enumerate(items) if each.status == "valid" and each.latency_ms}
    names = [one_line(item.configuration) for item in items]
    slowest = max(medians.values(), default=0.0)
    room = _LONGEST_NAME + max(summary.width - _NARROWEST, 0)
    width = min(max(_SHORTEST_NAME, *map(cell_len, names)), room)
    if medians:
        heads = [_cell(head, width, right) for head, width, right in _COLUMNS]
        summary.line(Text(" ".join([" " * width, *heads]).rstrip(), style="dim"))
    for at, (item, name) in enumerate(zip(items, names, strict=True)):
        if at not in medians:
            kind, _, reason = words.failure(item).partition(": ")
            summary.line(Text.assemble(name, ("  ! ", "bold yellow"), one_line(kind.removeprefix("is "))))
            if reason:
                summary.indented(reason)
            continue
        if cell_len(name) > width:
            summary.line(name)
            name = ""
        eighths = max(round(medians[at] / slowest * _BAR * 8) if slowest else 0, 1)
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        cells = (milliseconds(medians[at]), bar, *_gains(item, accuracy))
        time, bar, speed, *rest = (
            _cell(text, width, right) for text, (_, width, right) in zip(cells, _COLUMNS, strict=True)
        )
        style = _STYLES[item.speedup.verdict if item.speedup else "no difference shown"]
        line = Text.assemble(
            f"{set_cell_size(name, width)} {time} ", (bar, "cyan"), " ", (speed, style), f" {' '.join(rest)}"
        )
        line.rstrip()
        summary.line(line)


def _gains(item: Measurement, accuracy: Sequence[Accuracy]) -> tuple[str, ...]:
    """The columns behind the bar; "" for what was not measured."""
    cost, even, memory, gain = words.compile_cost(item), item.break_even, item.memory, item.speedup
    tested, speed = words.accuracy_of(item, accuracy), ""
    if gain is not None:
        low, high = (words.plain_ratio(each) for each in (gain.ratio.low, gain.ratio.high))
        shown = gain.verdict != "no difference shown"
        speed = f"{words.times(gain.ratio.value)} {low}-{high}" if shown else "no difference"
    return (
        speed,
        "" if cost is None else cost.short,
        "" if even is None or even.passes is None else words.short_count(even.passes),
        "" if memory is None else words.memory_short(item.configuration, memory),
        "" if tested is None else words.verdict_short(tested.verdict),
    )


def _cell(text: str, width: int, right: bool) -> str:
    """A text in its column; one that is too long takes the room it needs."""
    blank = " " * max(width - cell_len(text), 0)
    return blank + text if right else text + blank


def add_plan(summary: Summary, plan: CompilePlan | None) -> None:
    """Add a plan to a summary; nothing where there is none."""
    if plan is None or not plan.points:
        return
    _plan_table(summary, *words_plans.table(plan))
    _plan_lines(summary, words_plans.pasted(plan))
    for note in words_plans.notes(plan):
        summary.indented(note, "dim")
    summary.line()
    if plan.shapes is not None:
        for sentence in words_plans.shape_sentences(plan.shapes):
            summary.line(sentence)
        _plan_table(summary, *words_plans.shape_table(plan.shapes))
        _plan_lines(summary, words_plans.shape_lines(plan.shapes))


def _plan_table(summary: Summary, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_row(*(Text(head, style="dim") for head in heads))
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    summary.table(table)
    summary.line()


def _plan_lines(summary: Summary, lines: str) -> None:
    for line in lines.splitlines():  # Each with a mark: none of them is a line of ours.
        summary.indented(Text.assemble(("│ ", "dim"), one_line(line)))
    if lines:
        summary.line()
