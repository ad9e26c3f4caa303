"""The summary on the terminal: a sentence first, then what to fix, each with its line of code and one action."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dynalyze.render import words
from dynalyze.render.visible import visible
from dynalyze.report import Finding, GraphBreak, Location, Report, Severity

_MOST_FINDINGS = 10
_WIDEST = 100
_MARKS: dict[Severity, tuple[str, str]] = {
    "error": ("✗", "bold red"),
    "warning": ("!", "bold yellow"),
    "info": ("·", "bold blue"),
}


def render(
    report: Report, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None, width: int | None = None
) -> str:
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset."""
    if color is None:
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    out = io.StringIO()
    width = width or min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
    console = Console(
        file=out, width=width, force_terminal=color, no_color=not color, color_system="standard" if color else None,
        highlight=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    _verdict(console, report)
    _findings(console, report)
    for name, path in files:
        console.print(Text.assemble((f"{name}  ", "dim"), _line(path)), soft_wrap=True)
    return re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE)


def _verdict(console: Console, report: Report) -> None:
    console.print(Text(_line(words.verdict(report)), style="bold"))
    for note in words.trust_notes(report):
        console.print(Text(_line(note), style="dim"))
    console.print()


def _findings(console: Console, report: Report) -> None:
    breaks = {found.id: found for found in report.graph_breaks}
    for number, finding in enumerate(report.findings[:_MOST_FINDINGS], 1):
        found = breaks.get(finding.evidence[0]) if finding.rule == "graph-break" and finding.evidence else None
        _finding(console, number, finding, found)
    left = len(report.findings) - _MOST_FINDINGS
    if left > 0:
        console.print(Text(f"{words.count_of(left, 'more finding')}: see the page or --json.", style="dim"))
        console.print()


def _finding(console: Console, number: int, finding: Finding, found: GraphBreak | None) -> None:
    mark, style = _MARKS[finding.severity]
    head = Text.assemble((f"{mark} ", style), (f"{number}. ", "dim"), (_line(finding.title), "bold"))
    if found is not None and found.gb_id:
        head.append(f"  {found.gb_id}", style="dim")
    console.print(head)
    if finding.location is not None:
        _place(console, finding.location)
    if found is not None:
        times = f"{words.count_of(found.occurrences, 'time')} seen" if found.occurrences > 1 else ""
        effect = words.effect_words(found.effect)
        _indented(console, Text(f"{effect}{', ' + times if times else ''}", style="dim"))
    _indented(console, Text.assemble(("→ ", "green"), _line(finding.advice)))
    console.print()


def _place(console: Console, location: Location) -> None:
    place = Text(f"{_line(_shown_path(location.file))}:{location.line}", style="cyan")
    if location.function:
        place.append(f" in {_line(location.function)}", style="dim")
    _indented(console, place)
    if location.code:
        _indented(console, Text(_line(location.code), no_wrap=True, overflow="ellipsis"), by=5)


def _line(text: str) -> str:
    """A text of the run, safe to look at and on one line: a newline in a name must not forge a line of ours."""
    return visible(text.replace("\n", "␊"))


def _indented(console: Console, text: Text, by: int = 3) -> None:
    console.print(Padding(text, (0, 0, 0, by), expand=False))


def _shown_path(file: str) -> str:
    """Relative where that is shorter to read and still below the current directory."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):  # OSError: the current directory is gone.
        return words.short_path(file)
