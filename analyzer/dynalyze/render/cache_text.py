"""Two starts and their caches on the terminal: the sentence, what differs, what each cache did, what survives."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.render.words import caches as words
from dynalyze.report.caches import CacheComparison, CacheDifference, Move

_MOST = 12
_LONGEST = 70


def render_caches(
    found: CacheComparison, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None,
    width: int | None = None,
) -> str:  # fmt: skip
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset."""
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
    concerned = ", ".join(dict.fromkeys(f"{name} key" for name in each.caches))
    head = Text.assemble((f"{each.kind}  ", "yellow"), (one_line(each.component), "bold"))
    summary.beside(Text("✗", style="bold red"), head)
    summary.indented(each.says)
    if not each.location or each.kind in ("constant", "graph", "kernel"):
        values = [one_line(" ".join((text or "none").split()))[:_LONGEST] for text in (each.before, each.after)]
        if each.kind not in ("constant", "graph", "names", "new"):
            summary.indented(Text(f"{values[0]} → {values[1]}", style="dim"))
    if each.location is not None and each.kind in ("constant", "graph"):
        summary.place(each.location)
    if ids := ", ".join(each.compile_ids[:8]):
        summary.indented(Text(one_line(f"{concerned} of {ids} {each.function}"), style="dim"))
    summary.line()


def _uses(summary: Summary, found: CacheComparison) -> None:
    starts = [start for start in (found.before, found.after) if start is not None]
    names = list(dict.fromkeys(use.cache for start in starts for use in start.uses))
    if not names:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("", *(Text(title, style="bold") for title in ("first start", "second start")[: len(starts)]))
    for name in names:
        cells = ("".join(words.use_words(use) for use in start.uses if use.cache == name) for start in starts)
        table.add_row(words.CACHES[name], *(one_line(cell or "not asked") for cell in cells))
    if "pgo" not in names:
        table.add_row(words.CACHES["pgo"], words.NO_PROFILE)
    table.add_row("compiling", *map(words.compiling, starts))
    summary.table(table)
    summary.line()
    for start in starts[-1:]:
        for use in start.uses:
            for reason in use.reasons:
                summary.indented(Text(one_line(f"{words.CACHES[use.cache]} bypassed: {reason}"), style="yellow"))
            for place in use.places:
                summary.place(place)


def _moves(summary: Summary, moves: Sequence[Move]) -> None:
    summary.line("Does the filled cache survive?", style="bold")
    table = Table.grid(padding=(0, 2, 0, 0))
    for move in moves:
        mark = {True: ("✓", "bold green"), False: ("✗", "bold red"), None: ("?", "dim")}[move.survives]
        table.add_row(Text(*mark), words.WAYS[move.way], one_line(words.move_words(move)))
    summary.table(table)
    summary.line()
    for move in moves:
        if move.advice:
            summary.indented(Text(words.WAYS[move.way], style="bold"))
            summary.action(move.advice)
