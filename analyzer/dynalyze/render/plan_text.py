"""A plan of compiling on the terminal: a row for each way, the lines to paste, and what the shapes come to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.render.words import plans as words
from dynalyze.report.plans import CompilePlan


def add(summary: Summary, plan: CompilePlan | None) -> None:
    """Add a plan to a summary; nothing where there is none."""
    if plan is None or not plan.points:
        return
    _table(summary, *words.table(plan))
    _lines(summary, words.pasted(plan))
    for note in words.notes(plan):
        summary.indented(note, "dim")
    summary.line()
    if plan.shapes is not None:
        for sentence in words.shape_sentences(plan.shapes):
            summary.line(sentence)
        _table(summary, *words.shape_table(plan.shapes))
        _lines(summary, words.shape_lines(plan.shapes))


def _table(summary: Summary, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_row(*(Text(head, style="dim") for head in heads))
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    summary.table(table)
    summary.line()


def _lines(summary: Summary, lines: str) -> None:
    for line in lines.splitlines():  # Each with a mark: none of them is a line of ours.
        summary.indented(Text.assemble(("│ ", "dim"), one_line(line)))
    if lines:
        summary.line()
