"""The diagnosis on the terminal: a sentence, then a line a check, each with what mends it."""

from __future__ import annotations

from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from dynalyze.doctor.records import Diagnosis, Status
from dynalyze.render.console import Summary, one_line

_MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("✓", "green"), "warning": ("!", "bold yellow"), "problem": ("✗", "bold red"), "unknown": ("?", "dim"),
}  # fmt: skip
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
            mark, style = _MARKS[line.status]
            name, found = one_line(line.check), one_line(line.found)
            head = Text.assemble((f"{mark} ", style), (f"{name:{_NAMES}}", "" if line.status == "ok" else style))
            # A path would be cut in the column beside the name.
            too_long = max(map(cell_len, found.split()), default=0) > summary.width - _NAMES - _INDENT - 1
            if len(name) > _NAMES or too_long:
                summary.indented(head, by=2)
                summary.indented(Text(found), by=_INDENT)
            else:
                summary.beside(head, Text(found), by=2)
            if line.mend:
                summary.unwrapped(Text.assemble((" " * _INDENT + "→ ", "green"), one_line(line.mend)))
    return summary.text()
