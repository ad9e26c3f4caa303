"""A comparison of two sweeps on the terminal: the sentence, what else differs, lines new and fixed, then the items."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from dynalyze.comparison.sweeps import ItemChange, LineChange, SweepComparison
from dynalyze.render.comparison_parts import MOST, differences, more, opening
from dynalyze.render.console import Summary, one_line
from dynalyze.words import sweep_diff as words
from dynalyze.words.sweep import place_words

_MOST_NAMES = 4
_MARKS = {"better": ("✓", "bold green"), "worse": ("✗", "bold red"), "same": ("·", "bold blue")}


def render(
    comparison: SweepComparison,
    *,
    files: Sequence[tuple[str, str]] = (),
    color: bool | None = None,
    width: int | None = None,
) -> str:
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset."""
    summary = Summary(color, width)
    opening(summary, words.verdict(comparison), words.notes(comparison))
    differences(summary, comparison.differences, "Not the same in both sweeps")
    _lines(summary, "New breaks", comparison.new_breaks, "worse")
    _lines(summary, "Fixed breaks", comparison.gone_breaks, "better")
    _items(summary, comparison.changes)
    summary.files(files)
    return summary.text()


def _lines(summary: Summary, title: str, lines: Sequence[LineChange], mark: str) -> None:
    if not lines:
        return
    summary.line(title, style="bold")
    for line in lines[:MOST]:
        _line(summary, line, mark)
    more(summary, len(lines) - MOST)
    summary.line()


def _line(summary: Summary, line: LineChange, mark: str) -> None:
    sign, style = _MARKS["same" if line.follows else mark]
    place = Text(one_line(place_words(line.path, line.line)), style="cyan")
    if line.function:
        place.append(f" in {one_line(line.function)}", style="dim")
    summary.beside(Text(sign, style=style), Text.assemble(place, " ", (words.reach_words(line), "bold")))
    if line.code:
        summary.indented(Text(one_line(line.code), no_wrap=True, overflow="ellipsis"), by=5)
    cause = Text(one_line(line.gb_type))
    if line.gb_id:
        cause.append(f"  {one_line(line.gb_id)}", style="dim")
    if line.follows:
        cause.append("  follows from others", style="dim")
    summary.indented(cause)
    left = len(line.targets) - _MOST_NAMES
    names = ", ".join(line.targets[:_MOST_NAMES]) + (f" and {left:,} more" if left > 0 else "")
    summary.indented(Text(one_line(names), style="dim"))


def _items(summary: Summary, changes: Sequence[ItemChange]) -> None:
    for direction, title in (("worse", "Worse"), ("better", "Better"), ("same", "Changed otherwise")):
        some = [change for change in changes if change.direction == direction]
        if not some:
            continue
        summary.line(title, style="bold")
        for change in some[:MOST]:
            _item(summary, change)
        more(summary, len(some) - MOST)
        summary.line()


def _item(summary: Summary, change: ItemChange) -> None:
    sign, style = _MARKS[change.direction]
    told = (f"  {words.change_words(change)}", "dim")
    summary.beside(Text(sign, style=style), Text.assemble(one_line(words.item_words(change)), told))
    if change.error:
        summary.indented(Text(one_line(change.error), no_wrap=True, overflow="ellipsis"))
