"""Measurements on the terminal: a row for each configuration, grouped by what was run; and a plan.

Where the terminal is too narrow for a table, or a table of two rows tells no more, they are a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.render.text import bench as words
from dynalyze.render.text import plans as words_plans
from dynalyze.report.measurements import Accuracy, Measurement, SpeedVerdict
from dynalyze.report.plans import CompilePlan
from dynalyze.text.amounts import three_digits

_NARROWEST = 80
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
            remarks[:0] = [words.claim(each) for each in items if words.tells_no_number(each)]
            for remark in [*remarks, *known]:
                summary.indented(remark, "dim")
        summary.line()
    if groups and not brief:
        summary.line(_LEGEND, style="dim")
        summary.line()


def _table(summary: Summary, items: Sequence[Measurement], accuracy: Sequence[Accuracy]) -> None:
    rows: list[list[Text | str]] = []
    for item in items:
        time, speed, *rest = words.cells(item, words.accuracy_of(item, accuracy))
        style = _STYLES[item.speedup.verdict] if item.speedup else ""
        rows.append([item.configuration, time, Text(speed, style), *rest])
    summary.rows(["", *words.HEADS], rows, right=(1, 3, 4, 5), by=0)


def add_plan(summary: Summary, plan: CompilePlan | None) -> None:
    """Add a plan to a summary; nothing where there is none."""
    if plan is None or not plan.points:
        return
    summary.rows(*words_plans.table(plan))
    summary.line()
    _plan_lines(summary, words_plans.pasted(plan))
    for note in words_plans.notes(plan):
        summary.indented(note, "dim")
    summary.line()
    if plan.shapes is not None:
        for sentence in words_plans.shape_sentences(plan.shapes):
            summary.line(sentence)
        summary.rows(*words_plans.shape_table(plan.shapes))
        summary.line()
        _plan_lines(summary, words_plans.shape_lines(plan.shapes))


def _plan_lines(summary: Summary, lines: str) -> None:
    for line in lines.splitlines():  # Each with a mark: none of them is a line of ours.
        summary.indented(Text.assemble(("│ ", "dim"), one_line(line)))
    if lines:
        summary.line()
