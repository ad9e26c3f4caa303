"""The diagnosis on the terminal: a sentence, then a line a check, each with what mends it."""

from __future__ import annotations

from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from dynalyze.doctor.records import Diagnosis, Line, Status
from dynalyze.render.console import Summary, one_line

_MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("✓", "green"), "warning": ("!", "bold yellow"), "problem": ("✗", "bold red"), "unknown": ("?", "dim"),
}  # fmt: skip
_STYLES: dict[Status, str] = {"ok": "", "warning": "bold yellow", "problem": "bold red", "unknown": "dim"}
# Names are a column of this width; a longer one, of a variable, has its line to itself.
_NAMES = 17
_INDENT = 4


def render(diagnosis: Diagnosis, *, color: bool | None = None, width: int | None = None) -> str:
    """The summary as text."""
    summary = Summary(color, width)
    summary.line(one_line(diagnosis.summary), style="bold green" if diagnosis.works else "bold red")
    for group, lines in groupby(diagnosis.lines, key=lambda line: line.group):
        summary.line()
        summary.line(one_line(group), style="bold")
        for line in lines:
            _add(summary, line)
    return summary.text()


def _add(summary: Summary, line: Line) -> None:
    mark, style = _MARKS[line.status]
    name, found = one_line(line.check), one_line(line.found)
    head = Text.assemble((f"{mark} ", style), (f"{name:{_NAMES}}", _STYLES[line.status]))
    if len(name) > _NAMES or not _fits_beside(found, summary.width):
        summary.indented(head, by=2)
        summary.indented(Text(found), by=_INDENT)
    else:
        summary.beside(head, Text(found), by=2)
    if line.mend:
        summary.unwrapped(Text.assemble((" " * _INDENT + "→ ", "green"), one_line(line.mend)))


def _fits_beside(found: str, width: int) -> bool:
    """Whether no path in it would be cut in the column beside the name."""
    return max(map(cell_len, found.split()), default=0) <= width - _NAMES - _INDENT - 1
