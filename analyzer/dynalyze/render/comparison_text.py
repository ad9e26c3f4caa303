"""A comparison on the terminal, of two runs or of two sweeps: the sentence, what else differs, then what got worse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from dynalyze.comparison.sweeps import ItemChange, LineChange, SweepComparison
from dynalyze.comparison.types import BreakChange, Comparison, Difference, FunctionChange, RecompileChange
from dynalyze.render.console import Summary, one_line
from dynalyze.words import comparison as words
from dynalyze.words.comparison import ARROW, value
from dynalyze.words.sweep import place_words

_MOST = 10
"""Entries of a list on the terminal; the rest is counted."""


def _opening(summary: Summary, sentence: str, notes: Iterable[str]) -> None:
    """The verdict, and how far to trust it."""
    summary.line(one_line(sentence[:1].upper() + sentence[1:]), style="bold")
    for note in notes:
        summary.line(one_line(note), style="dim")
    summary.line()


def _differences(summary: Summary, found: Sequence[Difference], title: str) -> None:
    """Settings and versions that are not the same."""
    if not found:
        return
    summary.line(title, style="bold")
    for item in found[:_MOST]:
        values = f"{value(item.before)} {ARROW} {value(item.after)}"
        summary.indented(Text.assemble((f"{one_line(item.name)}  ", "dim"), one_line(values)))
    _left_out(summary, len(found) - _MOST)
    summary.line()


def _left_out(summary: Summary, left: int) -> None:
    """How many entries of a list are not shown; nothing where all are."""
    if left > 0:
        summary.line(f"{left:,} more: see --html or --json.", style="dim")


_MOST_FUNCTIONS = 8
_GOOD, _BAD, _NEUTRAL = ("✓", "bold green"), ("✗", "bold red"), ("·", "bold blue")


def render_comparison(
    comparison: Comparison,
    *,
    files: Sequence[tuple[str, str]] = (),
    color: bool | None = None,
    width: int | None = None,
) -> str:
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset."""
    summary = Summary(color, width)
    _opening(summary, words.verdict(comparison), words.notes(comparison))
    _differences(summary, comparison.differences, "Not the same in both runs")
    _regressions(summary, comparison)
    _breaks(summary, comparison)
    _recompiles(summary, comparison)
    _functions(summary, comparison)
    _measurements(summary, comparison)
    summary.files(files)
    return summary.text()


def _regressions(summary: Summary, comparison: Comparison) -> None:
    """The one that has no entry of its own below; the others are marked there."""
    for regression in comparison.regressions:
        if regression.kind == "outcome":
            told = Text(one_line(words.regression_words(regression)), style="bold")
            summary.beside(Text("✗", style="bold red"), told)
            summary.line()


def _breaks(summary: Summary, comparison: Comparison) -> None:
    breaks = comparison.breaks
    worse = [change for change in breaks.changed if change.direction == "worse"]
    better = [change for change in breaks.changed if change.direction != "worse"]
    _listed(summary, [(change, "New break", _BAD) for change in breaks.new])
    _listed(summary, [(change, "Worse", _BAD) for change in worse])
    _listed(summary, [(change, "Fixed", _GOOD) for change in breaks.fixed])
    marks = {"better": ("Better", _GOOD), "same": ("Changed", _NEUTRAL)}
    _listed(summary, [(change, *marks[change.direction]) for change in better])


def _listed(summary: Summary, items: list[tuple[BreakChange, str, tuple[str, str]]]) -> None:
    for change, word, (mark, style) in items[:_MOST]:
        head = Text.assemble(f"{word}: ", (one_line(change.gb_type), "bold"))
        if change.gb_id:
            head.append(f"  {one_line(change.gb_id)}", style="dim")
        summary.beside(Text(mark, style=style), head)
        side = change.after or change.before
        assert side is not None
        summary.place(side.location)
        summary.indented(Text(words.break_words(change), style="dim"))
        if change.advice:
            summary.action(change.advice)
        summary.line()
    _more(summary, len(items) - _MOST)


def _recompiles(summary: Summary, comparison: Comparison) -> None:
    found = comparison.recompiles
    marks = {"worse": _BAD, "better": _GOOD, "same": _NEUTRAL}
    rows = [(change, "New recompile", _BAD) for change in found.new]
    rows += [(change, "Recompile", marks[change.direction]) for change in found.changed]
    rows += [(change, "Fixed recompile", _GOOD) for change in found.fixed]
    for change, word, mark in rows[:_MOST]:
        _recompile(summary, change, word, mark)
    _more(summary, len(rows) - _MOST)


def _recompile(summary: Summary, change: RecompileChange, word: str, mark: tuple[str, str]) -> None:
    title = Text.assemble(f"{word}: ", (one_line(words.recompile_title(change)), "bold"))
    summary.beside(Text(mark[0], style=mark[1]), title)
    summary.indented(Text(words.times_words(change), style="dim"))
    side = change.after or change.before
    assert side is not None
    summary.place(side.location)
    summary.line()


def _functions(summary: Summary, comparison: Comparison) -> None:
    """Each function whose compilations changed; then where the time went, the largest first."""
    found = comparison.compilations
    rows = [*((item, "new") for item in found.new), *((item, "gone") for item in found.gone)]
    _function_lines(summary, "Compilations that changed", [*((item, "") for item in found.changed), *rows])
    timed = [item for item in (*found.changed, *found.unchanged) if words.function_seconds(item)]
    if not timed:
        return
    summary.line("Compile time by function", style="bold")
    timed.sort(key=words.slower_seconds, reverse=True)
    for item in timed[:_MOST_FUNCTIONS]:
        summary.indented(Text.assemble(one_line(item.function), (f"  {words.function_seconds(item)}", "dim")))
    summary.line()
    _more(summary, len(timed) - _MOST_FUNCTIONS)


def _function_lines(summary: Summary, title: str, rows: Iterable[tuple[FunctionChange, str]]) -> None:
    rows = list(rows)
    if not rows:
        return
    summary.line(title, style="bold")
    for item, word in rows[:_MOST_FUNCTIONS]:
        told = ", ".join(words.function_words(item))
        summary.indented(Text.assemble(one_line(item.function), (f"  {f'{word}: ' if word else ''}{told}", "dim")))
    summary.line()
    _more(summary, len(rows) - _MOST_FUNCTIONS)


def _measurements(summary: Summary, comparison: Comparison) -> None:
    if not comparison.measurements:
        return
    summary.line("Latency, median", style="bold")
    for item in comparison.measurements[:_MOST]:
        name = one_line(words.measurement_name(item))
        summary.indented(Text.assemble(name, (f"  {words.measurement_words(item)}", "dim")))
    summary.line()
    _more(summary, len(comparison.measurements) - _MOST)


def _more(summary: Summary, left: int) -> None:
    """What was left out, below the list's own blank line."""
    if left > 0:
        _left_out(summary, left)
        summary.line()


_MOST_NAMES = 4
_MARKS = {"better": ("✓", "bold green"), "worse": ("✗", "bold red"), "same": ("·", "bold blue")}


def render_sweep_diff(
    comparison: SweepComparison,
    *,
    files: Sequence[tuple[str, str]] = (),
    color: bool | None = None,
    width: int | None = None,
) -> str:
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset."""
    summary = Summary(color, width)
    _opening(summary, words.sweeps_verdict(comparison), words.sweeps_notes(comparison))
    _differences(summary, comparison.differences, "Not the same in both sweeps")
    _broken_lines(summary, "New breaks", comparison.new_breaks, "worse")
    _broken_lines(summary, "Fixed breaks", comparison.gone_breaks, "better")
    _items(summary, comparison.changes)
    summary.files(files)
    return summary.text()


def _broken_lines(summary: Summary, title: str, lines: Sequence[LineChange], mark: str) -> None:
    if not lines:
        return
    summary.line(title, style="bold")
    for line in lines[:_MOST]:
        _broken_line(summary, line, mark)
    _left_out(summary, len(lines) - _MOST)
    summary.line()


def _broken_line(summary: Summary, line: LineChange, mark: str) -> None:
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
        for change in some[:_MOST]:
            _item(summary, change)
        _left_out(summary, len(some) - _MOST)
        summary.line()


def _item(summary: Summary, change: ItemChange) -> None:
    sign, style = _MARKS[change.direction]
    told = (f"  {words.change_words(change)}", "dim")
    summary.beside(Text(sign, style=style), Text.assemble(one_line(words.item_words(change)), told))
    if change.error:
        summary.indented(Text(one_line(change.error), no_wrap=True, overflow="ellipsis"))
