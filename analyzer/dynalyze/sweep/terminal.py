"""A sweep on the terminal, and two compared: the sentence, what breaks most, what failed or changed, the files."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from dynalyze.comparison.types import Direction
from dynalyze.render.comparison_text import MOST, direction_mark, opening
from dynalyze.render.console import Summary, one_line
from dynalyze.sweep import words
from dynalyze.sweep.clusters import BrokenLine, SweepSummary, summarise
from dynalyze.sweep.compare import LineChange, SweepComparison
from dynalyze.sweep.records import Status, Sweep
from dynalyze.text.amounts import count_of, duration, percent

_MOST_LINES = 8
_MOST_ERRORS = 6
_MOST_NAMES = 4
_MARKS: dict[Status, tuple[str, str]] = {
    "full_graph": ("✓", "bold green"),
    "graph_break": ("!", "bold yellow"),
    "compile_error": ("✗", "bold red"),
}
_NO_RESULT = ("·", "bold blue")  # The others say nothing of torch.compile.


def render(
    sweep: Sweep, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None, width: int | None = None
) -> str:
    summary, found = Summary(color, width), summarise(sweep)
    first, *rest = words.verdict_sentences(sweep, found)
    summary.line(first, style="bold")
    if rest:
        summary.line(" ".join(rest))
    for note in words.notes(sweep):
        summary.line(note.replace("`", ""), style="dim")
    summary.line()
    if sweep.items:
        _counts(summary, sweep, found)
    if found.lines:
        _lines(summary, found, words.target_noun(sweep))
    if found.errors:
        _errors(summary, found)
    for total in found.speeds:
        summary.line(Text.assemble((one_line(total.configuration), "bold"), f"  {words.speed_total_words(total)}"))
    if found.speeds:
        summary.line()
    summary.files(files)
    return summary.text()


def _counts(summary: Summary, sweep: Sweep, found: SweepSummary) -> None:
    widest = len(f"{len(sweep.items):,}")
    for status, number in found.total.counts.items():
        mark, style = _MARKS.get(status, _NO_RESULT)
        summary.line(Text.assemble((mark, style), f" {number:>{widest},} ", words.status_words(status)))
    known = [f"{words.clean_share(found)} of what reached the compiler is clean"] if found.total.reached else []
    known += [f"{duration(sweep.seconds)} with {count_of(sweep.workers, 'worker')}"] if sweep.seconds else []
    known += [f"{count_of(found.recompiling, words.noun(sweep))} compiled again"] if found.recompiling else []
    if known:
        summary.line("; ".join(known), style="dim")
    summary.line()
    if len(found.configurations) > 1:
        summary.line("By configuration", style="bold")
        for share in found.configurations:
            clean = "" if share.clean is None else f"{percent(share.clean)} clean: "
            counts = ", ".join(f"{number:,} {words.status_words(status)}" for status, number in share.counts.items())
            summary.indented(Text.assemble(one_line(share.name), (f"  {clean}{counts}", "dim")))
        summary.line()


def _lines(summary: Summary, found: SweepSummary, what: str) -> None:
    summary.line("Lines that break most", style="bold")
    shown = found.leading[:_MOST_LINES]
    for line in shown:
        broken_line(summary, Text("!", style="bold yellow"), line, f"breaks {count_of(len(line.targets), what)}")
    summary.left_out(len(found.lines) - len(shown), "line")
    if found.following:
        number = len(found.following)
        verb = "follows" if number == 1 else "follow"
        summary.line(f"{count_of(number, 'line')} more {verb} from these: fix these first.", style="dim")
    summary.line()


def _names(summary: Summary, targets: Sequence[str]) -> None:
    left = len(targets) - _MOST_NAMES
    summary.indented(", ".join(targets[:_MOST_NAMES]) + (f" and {left:,} more" if left > 0 else ""), "dim")


def broken_line(summary: Summary, mark: Text, line: BrokenLine | LineChange, reach: str, note: str = "") -> None:
    place = Text(one_line(words.place_words(line.path, line.line)), style="cyan")
    if line.function:
        place.append(f" in {one_line(line.function)}", style="dim")
    summary.beside(mark, Text.assemble(place, " ", (reach, "bold")))
    if line.code:
        summary.code(line.code)
    cause = Text(one_line(line.gb_type))
    for more in filter(None, (line.gb_id, note)):
        cause.append(f"  {one_line(more)}", style="dim")
    summary.indented(cause)
    _names(summary, line.targets)


def _errors(summary: Summary, found: SweepSummary) -> None:
    summary.line("What failed", style="bold")
    for group in found.errors[:_MOST_ERRORS]:
        mark, style = _MARKS.get(group.status, _NO_RESULT)
        head = Text(f"{len(group.rows):,} {words.status_words(group.status)}")
        if group.place:
            head.append(f" at {one_line(group.place)}", style="dim")
        summary.beside(Text(mark, style=style), head)
        if group.message:
            summary.code(group.message, by=3)
        _names(summary, group.targets)
    summary.left_out(len(found.errors) - _MOST_ERRORS, "kind")
    summary.line()


def render_diff(
    comparison: SweepComparison, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None,
    width: int | None = None,
) -> str:  # fmt: skip
    summary = Summary(color, width)
    sentence, notes = words.diff_verdict(comparison), words.diff_notes(comparison)
    opening(summary, sentence, notes, comparison.differences, "sweeps")
    lists: tuple[tuple[str, Sequence[LineChange], Direction], ...] = (
        ("New breaks", comparison.new_breaks, "worse"), ("Fixed breaks", comparison.gone_breaks, "better")
    )  # fmt: skip
    for title, lines, direction in lists:
        if lines:
            summary.line(title, style="bold")
            for line in lines[:MOST]:
                mark, note = direction_mark(direction), ""
                if line.follows:
                    mark, note = direction_mark("same"), "follows from others"
                broken_line(summary, mark, line, f"in {count_of(len(line.targets), 'target')}", note)
            summary.left_out(len(lines) - MOST, where="--html")
            summary.line()
    for direction, title in words.DIRECTIONS.items():
        some = [change for change in comparison.changes if change.direction == direction]
        if some:
            summary.line(title, style="bold")
            for change in some[:MOST]:
                item = Text.assemble(one_line(words.item_name(change)), (f"  {words.change_words(change)}", "dim"))
                summary.beside(direction_mark(direction), item)
                if change.error:
                    summary.code(change.error, by=3)
            summary.left_out(len(some) - MOST, where="--html")
            summary.line()
    summary.files(files)
    return summary.text()
