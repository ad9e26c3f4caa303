"""Fixes on the terminal: each with its change and what was verified of it, then what stays, and before and after."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.report import Report
from dynalyze.report.fixes import Fix, Fixed
from dynalyze.words import fixes as words

_MARKS = {"verified": ("✓", "bold green"), "suggested": ("?", "bold yellow"), "rejected": ("✗", "dim")}
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_MOST_LINES = 40


def add(summary: Summary, report: Report, fixed: Fixed, notes: Sequence[str]) -> None:
    """Add what was tried and verified to a summary; `notes` say how far to trust the recording."""
    summary.line(words.verdict(report, fixed), style="bold")
    for note in notes:
        summary.line(note, style="dim")
    summary.line()
    breaks = {each.id: each for each in report.graph_breaks}
    for fix in report.fixes:
        if fix.status == "rejected":
            continue
        _heading(summary, fix)
        for name in fix.breaks:
            if name in breaks:
                summary.place(breaks[name].location)
        _change(summary, fix)
        if fix.status == "suggested" and fix.reason:
            summary.indented(fix.reason, "yellow")
        if said := words.proof(fix.evidence):
            summary.indented(said)
        for caveat in words.caveats(fix):
            summary.indented(caveat, "yellow")
        summary.line()
    if not fixed.given:
        _unfixed(summary, fixed)
    if fixed.before is not None and fixed.after is not None:
        _table(summary, fixed)
    if said := words.gain(fixed.evidence):
        summary.line(said)
        summary.line()
    if fixed.kept and fixed.reproduce:
        summary.unwrapped(Text.assemble(("Proof  ", "dim"), one_line("dynalyze " + " ".join(fixed.reproduce))))


def _heading(summary: Summary, fix: Fix) -> None:
    mark, style = _MARKS[fix.status]
    title = Text(one_line(fix.title), style="bold")
    ends = one_line(", ".join(fix.breaks))
    title.append(f"  {ends}, {words.changes(fix)}, {words.STATUSES[fix.status]}", style="dim")
    summary.beside(Text.assemble((f"{mark} ", style), (one_line(fix.id), "dim")), title)


def _change(summary: Summary, fix: Fix) -> None:
    for line in fix.setting.splitlines():
        summary.indented(Text.assemble(("setting  ", "dim"), one_line(line)))
    lines = [line.removesuffix("\r") for line in fix.patch.rstrip("\n").split("\n")] if fix.patch else []
    for line in lines[:_MOST_LINES]:
        shown = Text.assemble(("│ ", "dim"), (one_line(line), _STYLES.get(line[:1], "")))
        shown.no_wrap, shown.overflow = True, "ellipsis"
        summary.indented(shown)
    if len(lines) > _MOST_LINES:
        summary.indented(f"... {len(lines) - _MOST_LINES} more lines: --patch FILE", "dim")


def _unfixed(summary: Summary, fixed: Fixed) -> None:
    for each in fixed.unfixed:
        summary.beside(
            Text("! ", style="bold yellow"), Text(f"{one_line(each.break_id)} stays: {one_line(each.gb_type)}")
        )
        if each.place is not None:
            summary.place(each.place)
        if each.reason:
            summary.indented(each.reason, "dim")
    if fixed.unfixed:
        summary.line()


def _table(summary: Summary, fixed: Fixed) -> None:
    assert fixed.before is not None and fixed.after is not None
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("the whole program")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    for name, before, after in words.before_and_after(fixed.before, fixed.after):
        table.add_row(name, str(before), str(after))
    summary.table(table, by=0)
    summary.line()
