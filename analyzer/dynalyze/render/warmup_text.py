"""The warm-up check on the terminal: what compiles after warm-up, and what each shape compiled."""

from __future__ import annotations

from rich.text import Text

from dynalyze.audit_records import ShapeRun, Warmup
from dynalyze.render import words_warmup as words
from dynalyze.render.amounts import count_of, milliseconds
from dynalyze.render.console import Summary, one_line

_MOST_ROWS = 12


def add(summary: Summary, warmup: Warmup | None) -> None:
    """Add the check to a summary; nothing where none was made."""
    if warmup is None:
        return
    summary.line(one_line(words.headline(warmup)), style="bold")
    for run in warmup.calls[:_MOST_ROWS]:
        _row(summary, run)
    left = len(warmup.calls) - _MOST_ROWS
    if left > 0:
        summary.indented(Text(f"{count_of(left, 'more shape')}: see the page or --json.", style="dim"))
    for sentence in words.sentences(warmup):
        summary.indented(Text(one_line(sentence)))
    for note in warmup.notes:
        summary.indented(Text(one_line(note), style="dim"))
    summary.line()


def _row(summary: Summary, run: ShapeRun) -> None:
    took = f"{milliseconds(run.milliseconds)}{_later(run)}"
    style = "yellow" if run.error or run.in_eager else ""
    compiled = f"compiled {words.compiled(run)}" if not run.error else words.compiled(run)
    line = Text.assemble((words.shape_words(run.shape), "cyan"), f"  {took}  ", (one_line(compiled), style))
    if run.in_eager:
        line.append(f"  {one_line(words.runs(run))}", style=style)
    summary.indented(line)


def _later(run: ShapeRun) -> str:
    return f", later {words.later(run)}" if run.later_milliseconds is not None else ""
