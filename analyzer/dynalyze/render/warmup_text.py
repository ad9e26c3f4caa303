"""The warm-up check on the terminal: what compiles after warm-up, and what each shape compiled."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.report.audit import ShapeRun, Warmup
from dynalyze.text.amounts import count_of, milliseconds
from dynalyze.words import warmup as words

_MOST_ROWS = 12


def add(summary: Summary, warmup: Warmup | None) -> None:
    """Add the check to a summary; nothing where none was made."""
    if warmup is None:
        return
    summary.line(one_line(words.headline(warmup)), style="bold")
    for sentence in words.sentences(warmup):
        summary.indented(Text(one_line(sentence)))
    for note in warmup.notes:
        summary.indented(Text(one_line(note), style="dim"))
    if warmup.calls:
        summary.table(_table(warmup.calls[:_MOST_ROWS]))
    left = len(warmup.calls) - _MOST_ROWS
    if left > 0:
        summary.indented(Text(f"{count_of(left, 'more shape')}: see the page or --json.", style="dim"))
    summary.line()


def _table(runs: list[ShapeRun]) -> Table:
    """A row for each shape, in the order of the warm-up."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("shape", no_wrap=True)
    table.add_column("first call", justify="right", no_wrap=True)
    table.add_column("again", justify="right", no_wrap=True)
    table.add_column("its first call compiled", overflow="fold")
    for run in runs:
        first = "" if run.error else milliseconds(run.milliseconds)
        table.add_row(Text(one_line(words.shape_words(run.shape)), "cyan"), first, words.later(run), _compiled(run))
    return table


def _compiled(run: ShapeRun) -> Text:
    told = words.compiled(run)
    told += f"; {words.runs(run)}" if run.in_eager else ""
    return Text(one_line(told), "yellow" if run.error or run.in_eager else "")
