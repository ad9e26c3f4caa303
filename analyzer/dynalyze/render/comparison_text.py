"""Two runs compared, and what another torch changes, on the terminal and as JSON: the sentence, then what got worse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from rich.text import Text

from dynalyze.comparison.types import (
    SCHEMA_VERSION,
    UPGRADE_SCHEMA,
    Comparison,
    Difference,
    Direction,
    RecompileChange,
    Upgrade,
)
from dynalyze.render.console import Summary, one_line
from dynalyze.render.text import comparison as words
from dynalyze.render.text.bench import capital, ratio_words, workload_name
from dynalyze.render.text.report import CAUSE_WORDS
from dynalyze.text.amounts import count_of, listed
from dynalyze.text.json_text import json_text

MOST = 10
"""Entries of a list on the terminal; the rest is counted."""
_FATES: dict[str, tuple[str, Direction]] = {
    "new": ("New break", "worse"),
    "worse": ("Worse", "worse"),
    "fixed": ("Fixed", "better"),
    "better": ("Better", "better"),
    "changed": ("Changed", "same"),
}
_MARKS = {"better": ("✓", "bold green"), "worse": ("✗", "bold red"), "same": ("·", "bold blue")}


def render_comparison(
    comparison: Comparison, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None,
    width: int | None = None,
) -> str:  # fmt: skip
    summary = Summary(color, width)
    opening(summary, words.verdict(comparison), words.notes(comparison), comparison.differences, "runs")
    for regression in comparison.regressions:
        if regression.kind == "outcome":  # The one that has no entry of its own below; the others are marked there.
            summary.beside(direction_mark("worse"), Text(one_line(words.regression_words(regression)), style="bold"))
            summary.line()
    _breaks(summary, comparison)
    _recompiles(summary, comparison)
    _functions(summary, comparison)
    measured = [(workload_name(item), words.measurement_words(item)) for item in comparison.measurements]
    _rows(summary, "Latency, median", measured)
    summary.files(files)
    return summary.text()


def opening(summary: Summary, sentence: str, notes: Iterable[str], found: Sequence[Difference], compared: str) -> None:
    """The verdict, how far to trust it, and the settings and versions that are not the same."""
    summary.line(capital(sentence), style="bold")
    for note in notes:
        summary.line(note, style="dim")
    summary.line()
    if not found:
        return
    summary.line(f"Not the same in both {compared}", style="bold")
    for item in found[:MOST]:
        values = f"{item.before or 'none'} {words.ARROW} {item.after or 'none'}"
        summary.indented(Text.assemble((f"{one_line(item.name)}  ", "dim"), one_line(values)))
    summary.left_out(len(found) - MOST, where="--html")
    summary.line()


def _left_out(summary: Summary, number: int) -> None:
    if number > 0:
        summary.left_out(number, where="--html")
        summary.line()


def direction_mark(direction: Direction) -> Text:
    mark, style = _MARKS[direction]
    return Text(mark, style=style)


def _breaks(summary: Summary, comparison: Comparison) -> None:
    fates = words.break_fates(comparison.breaks)
    for fate, (word, direction) in _FATES.items():
        for change in fates[fate][:MOST]:
            head = Text.assemble(f"{word}: ", (one_line(change.name), "bold"))
            if change.gb_id:
                head.append(f"  {one_line(change.gb_id)}", style="dim")
            summary.beside(direction_mark(direction), head)
            summary.place(words.latest(change.before, change.after).location)
            summary.indented(Text(words.break_words(change), style="dim"))
            if change.advice:
                summary.action(change.advice)
            summary.line()
        _left_out(summary, len(fates[fate]) - MOST)


def _recompiles(summary: Summary, comparison: Comparison) -> None:
    found = comparison.recompiles
    rows: list[tuple[RecompileChange, str, Direction]] = [
        *((change, "New recompile", "worse") for change in found.new),
        *((change, "Recompile", change.direction) for change in found.changed),
        *((change, "Fixed recompile", "better") for change in found.fixed),
    ]
    for change, word, direction in rows[:MOST]:
        source = f" ({change.source})" if change.source else ""
        title = one_line(f"{change.function}: {CAUSE_WORDS[change.cause]}{source}")
        summary.beside(direction_mark(direction), Text.assemble(f"{word}: ", (title, "bold")))
        summary.indented(Text(words.times_words(change), style="dim"))
        summary.place(words.latest(change.before, change.after).location)
        summary.line()
    _left_out(summary, len(rows) - MOST)


def _functions(summary: Summary, comparison: Comparison) -> None:
    found = comparison.compilations
    rows = [(item, "") for item in found.changed]
    rows += [*((item, "new: ") for item in found.new), *((item, "gone: ") for item in found.gone)]
    changes = [(item.function, f"{word}{', '.join(words.function_words(item))}") for item, word in rows]
    _rows(summary, "Compilations that changed", changes)


def _rows(summary: Summary, title: str, rows: Sequence[tuple[str, str]]) -> None:
    if not rows:
        return
    summary.line(title, style="bold")
    for name, text in rows[:MOST]:
        summary.indented(Text.assemble(one_line(name), (f"  {text}", "dim")))
    summary.line()
    _left_out(summary, len(rows) - MOST)


def render_comparison_json(comparison: Comparison) -> str:
    return document(comparison, SCHEMA_VERSION, words.verdict(comparison))


def document(comparison: msgspec.Struct, schema_version: int, sentence: str) -> str:
    """That of any two things compared: `before` and `after` are fields of it."""
    facts = msgspec.to_builtins(comparison)
    before, after = facts.pop("before"), facts.pop("after")
    return json_text({"schema_version": schema_version, "before": before, "after": after, "verdict": sentence, **facts})


def render_upgrade_json(found: Upgrade) -> str:
    head = {"schema_version": UPGRADE_SCHEMA, "verdict": _verdict(found), "worse": found.is_worse}
    return json_text({**head, **msgspec.to_builtins(found)})


def render_upgrade(
    found: Upgrade, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None, width: int | None = None
) -> str:
    summary = Summary(color, width)
    summary.line(_verdict(found), style="bold")
    for note in [*found.notes, *([found.outputs.note] if found.outputs.note else [])]:
        summary.line(note, style="dim")
    if found.latency_ms is not None:
        one, other = (f"{each:.4g} ms" for each in found.latency_ms)
        speed = ratio_words(found.speed) if found.speed else "not judged: only one pair of processes"
        summary.indented(f"a call, median: {one} {words.ARROW} {other}, {speed}")
    outputs = found.outputs
    if outputs.before is not None or outputs.after is not None:
        verdicts = f"{outputs.before or 'not known'} {words.ARROW} {outputs.after or 'not known'}"
        summary.indented(f"outputs against eager: {verdicts}")
    summary.line()
    return summary.text() + render_comparison(found.comparison, files=files, color=color, width=width)


def _verdict(found: Upgrade) -> str:
    versions = f"torch {found.before.torch or 'not known'} {words.ARROW} {found.after.torch or 'not known'}"
    worse = [count_of(len(found.comparison.regressions), "regression")] if found.comparison.regressions else []
    if found.speed is not None and found.speed.verdict == "slower":
        worse.append("slower calls")
    worse += [f"other answers, {found.outputs.worse}"] if found.outputs.worse else []
    return f"{versions}: {listed(worse) if worse else 'nothing is worse'}."
