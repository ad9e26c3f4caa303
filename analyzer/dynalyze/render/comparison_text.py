"""A comparison on the terminal: the sentence, what else differs, what got worse, then the rest, briefly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from dynalyze.comparison.types import BreakChange, Comparison, FunctionChange, RecompileChange
from dynalyze.render.comparison_parts import MOST, differences, more, opening
from dynalyze.render.console import Summary, one_line
from dynalyze.words import comparison as words

_MOST_FUNCTIONS = 8
_GOOD, _BAD, _NEUTRAL = ("✓", "bold green"), ("✗", "bold red"), ("·", "bold blue")


def render(
    comparison: Comparison,
    *,
    files: Sequence[tuple[str, str]] = (),
    color: bool | None = None,
    width: int | None = None,
) -> str:
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset."""
    summary = Summary(color, width)
    opening(summary, words.verdict(comparison), words.notes(comparison))
    differences(summary, comparison.differences, "Not the same in both runs")
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
    for change, word, (mark, style) in items[:MOST]:
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
    _more(summary, len(items) - MOST)


def _recompiles(summary: Summary, comparison: Comparison) -> None:
    found = comparison.recompiles
    marks = {"worse": _BAD, "better": _GOOD, "same": _NEUTRAL}
    rows = [(change, "New recompile", _BAD) for change in found.new]
    rows += [(change, "Recompile", marks[change.direction]) for change in found.changed]
    rows += [(change, "Fixed recompile", _GOOD) for change in found.fixed]
    for change, word, mark in rows[:MOST]:
        _recompile(summary, change, word, mark)
    _more(summary, len(rows) - MOST)


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
    for item in comparison.measurements[:MOST]:
        name = one_line(words.measurement_name(item))
        summary.indented(Text.assemble(name, (f"  {words.measurement_words(item)}", "dim")))
    summary.line()
    _more(summary, len(comparison.measurements) - MOST)


def _more(summary: Summary, left: int) -> None:
    """What was left out, below the list's own blank line."""
    if left > 0:
        more(summary, left)
        summary.line()
