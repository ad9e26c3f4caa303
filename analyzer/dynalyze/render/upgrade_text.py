"""What another torch changes, on the terminal and as JSON: the sentence, the amounts, what is worse and better."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from dynalyze.comparison.upgrades import SCHEMA_VERSION, Change, Upgrade
from dynalyze.render.console import Summary, one_line
from dynalyze.text.json_text import json_text
from dynalyze.words import upgrades as words

_MOST = 20
_MOST_SETTINGS = 6
_MARKS = {"better": ("✓", "bold green"), "worse": ("✗", "bold red"), "same": ("·", "bold blue")}
_STYLES = {"better": "green", "worse": "bold red", "same": "dim", "changed": "dim"}


def render_json(found: Upgrade) -> str:
    """The whole document, indented."""
    facts = msgspec.to_builtins(found)
    return json_text({"schema_version": SCHEMA_VERSION, "verdict": words.verdict(found), **facts})


def render_upgrade(
    found: Upgrade, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None, width: int | None = None
) -> str:
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset."""
    summary = Summary(color, width)
    summary.line(words.verdict(found), style="bold")
    for note in [*found.notes, *words.notes(found)]:
        summary.line(note, style="dim")
    summary.line()
    for change in found.changes[:_MOST]:
        _change(summary, change)
    if (left := len(found.changes) - _MOST) > 0:
        summary.line(f"{left:,} more: see --json.", style="dim")
    _amounts(summary, found)
    if found.settings and any(each.direction == "worse" for each in found.changes):
        summary.line("Settings of torch that are not the same", style="bold")
        for item in found.settings[:_MOST_SETTINGS]:
            summary.indented(Text(one_line(f"{item.name}  {item.before} -> {item.after}"), style="dim"))
        if (left := len(found.settings) - _MOST_SETTINGS) > 0:
            summary.indented(Text(f"{left:,} more: see --json.", style="dim"))
        summary.line()
    for version in found.versions:
        summary.indented(words.version_words(version))
    summary.files(files)
    return summary.text()


def _change(summary: Summary, change: Change) -> None:
    mark, style = _MARKS[change.direction]
    head = Text.assemble(f"{words.TITLES[change.kind, change.direction]}: ", (one_line(change.what), "bold"))
    summary.beside(Text(mark, style=style), head)
    if change.before and change.after:
        summary.indented(Text(one_line(words.values(change)), style="dim"))
    if change.location is not None:
        summary.place(change.location)
    if change.advice:
        summary.action(change.advice)
    summary.line()


def _amounts(summary: Summary, found: Upgrade) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    titles = [one_line(each.torch or "not known") for each in (found.before, found.after)]
    table.add_row("", *(Text(title, style="bold") for title in titles), "")
    for each in found.measures:
        cells = [words.amount(each.name, value) for value in (each.before, each.after)]
        verdict = words.measure_verdict(each, found)
        table.add_row(words.MEASURES[each.name], *cells, Text(verdict, style=_STYLES[each.verdict]))
    outputs = found.outputs
    if outputs.before is not None or outputs.after is not None:
        table.add_row("outputs", *(each or "not known" for each in (outputs.before, outputs.after)), "")
    summary.table(table)
    summary.line()
