"""The diagnosis on the terminal: a sentence, then a line a check, each with what mends it."""

from __future__ import annotations

from rich.text import Text

from dynalyze.doctor.records import Diagnosis, Line, Status
from dynalyze.render.console import Summary, one_line

_MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("✓", "green"), "warning": ("!", "bold yellow"), "problem": ("✗", "bold red"), "unknown": ("?", "dim"),
}  # fmt: skip


def render(diagnosis: Diagnosis, *, color: bool | None = None, width: int | None = None) -> str:
    """The summary as text."""
    summary = Summary(color, width)
    summary.line(one_line(diagnosis.summary), style="bold")
    summary.line()
    for line in diagnosis.lines:
        _add(summary, line)
    return summary.text()


def _add(summary: Summary, line: Line) -> None:
    mark, style = _MARKS[line.status]
    summary.line(Text.assemble((f"{mark} ", style), (one_line(line.check), "bold"), f"  {one_line(line.found)}"))
    if line.mend:
        summary.indented(Text.assemble(("→ ", "green"), one_line(line.mend)), by=2)
