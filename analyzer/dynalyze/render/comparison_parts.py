"""What comparisons of two runs and of two sweeps show alike: their beginning on the terminal, and their JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from rich.text import Text

from dynalyze.comparison.types import Difference
from dynalyze.render.console import Summary, one_line
from dynalyze.text.json_text import json_text
from dynalyze.words.comparison import ARROW, value

MOST = 10
"""Entries of a list on the terminal; the rest is counted."""


def opening(summary: Summary, sentence: str, notes: Iterable[str]) -> None:
    """The verdict, and how far to trust it."""
    summary.line(one_line(sentence[:1].upper() + sentence[1:]), style="bold")
    for note in notes:
        summary.line(one_line(note), style="dim")
    summary.line()


def differences(summary: Summary, found: Sequence[Difference], title: str) -> None:
    """Settings and versions that are not the same."""
    if not found:
        return
    summary.line(title, style="bold")
    for item in found[:MOST]:
        values = f"{value(item.before)} {ARROW} {value(item.after)}"
        summary.indented(Text.assemble((f"{one_line(item.name)}  ", "dim"), one_line(values)))
    more(summary, len(found) - MOST)
    summary.line()


def more(summary: Summary, left: int) -> None:
    """How many entries of a list are not shown; nothing where all are."""
    if left > 0:
        summary.line(f"{left:,} more: see --html or --json.", style="dim")


def document(comparison: msgspec.Struct, schema_version: int, verdict: str) -> str:
    """A comparison as indented JSON: schema_version and both sides first, then the sentence, then the facts."""
    facts = msgspec.to_builtins(comparison)
    ordered = {
        "schema_version": schema_version,
        "before": facts.pop("before"),
        "after": facts.pop("after"),
        "verdict": verdict,
        **facts,
    }
    return json_text(ordered)
