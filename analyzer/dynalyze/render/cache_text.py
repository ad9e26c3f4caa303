"""Two starts and their caches on the terminal: the sentence, what differs, what each cache did, what survives."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.render.text import caches as words
from dynalyze.report.caches import CacheComparison, CacheDifference, Move

_MOST = 12
_LONGEST = 70


def render_caches(
    found: CacheComparison, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None,
    width: int | None = None,
) -> str:  # fmt: skip
    summary = Summary(color, width)
    summary.line(found.verdict, style="bold")
    for note in found.notes:
        summary.line(note, style="dim")
    summary.line()
    for each in found.differences[:_MOST]:
        _difference(summary, each)
    if (left := len(found.differences) - _MOST) > 0:
        summary.line(f"{left:,} more: see --json.", style="dim")
        summary.line()
    _uses(summary, found)
    if found.portability:
        _moves(summary, found.portability)
    summary.files(files)
    return summary.text()


def _difference(summary: Summary, each: CacheDifference) -> None:
    head = Text.assemble((f"{each.kind}  ", "yellow"), (one_line(each.component), "bold"))
    summary.beside(Text("✗", style="bold red"), head)
    summary.indented(each.says)
    if (values := words.values_of(each)) is not None:
        before, after = (one_line(" ".join(text.split()))[:_LONGEST] for text in values)
        summary.indented(Text(f"{before} → {after}", style="dim"))
    if each.location is not None and each.kind in ("constant", "graph"):
        summary.place(each.location)
    if concerned := words.concerned(each):
        summary.indented(Text(one_line(concerned), style="dim"))
    summary.line()


def _uses(summary: Summary, found: CacheComparison) -> None:
    heads, rows = words.uses_table(found)
    if not rows:
        return
    summary.rows(heads, rows)
    summary.line()
    starts = [start for start in (found.before, found.after) if start is not None]
    for start in starts[-1:]:
        for use in start.uses:
            for reason in use.reasons:
                summary.indented(Text(one_line(f"{words.CACHES[use.cache]} bypassed: {reason}"), style="yellow"))
            for place in use.places:
                summary.place(place)


def _moves(summary: Summary, moves: Sequence[Move]) -> None:
    summary.line("Does the filled cache survive?", style="bold")
    marks = {True: ("✓", "bold green"), False: ("✗", "bold red"), None: ("?", "dim")}
    summary.rows((), [(Text(*marks[move.survives]), words.WAYS[move.way], words.move_words(move)) for move in moves])
    summary.line()
    for move in moves:
        if move.advice:
            summary.indented(Text(words.WAYS[move.way], style="bold"))
            summary.action(move.advice)
