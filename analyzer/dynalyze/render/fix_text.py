"""Fixes on the terminal: each with its change and how it was checked, then what stays, and before and after."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.render.text import fixes as words
from dynalyze.render.text.report import command_line
from dynalyze.report import Report
from dynalyze.report.fixes import Fix, Fixed

_MARKS = {"verified": ("✓", "bold green"), "suggested": ("?", "bold yellow"), "rejected": ("✗", "dim")}
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_MOST_LINES = 40


def add(summary: Summary, report: Report, fixed: Fixed, notes: Sequence[str]) -> None:
    """Add what was tried and verified to a summary; `notes` say how far to trust the recording."""
    summary.line(words.verdict(report, fixed), style="bold")
    for note in notes:
        summary.line(note, style="dim")
    summary.line()
    known = {each.id: each.location for each in report.graph_breaks}
    known |= {each.id: each.location for each in report.recompiles}
    for fix in report.fixes:
        if fix.status == "rejected":
            continue
        _heading(summary, fix)
        for place in {known[name].at: known[name] for name in fix.ends if name in known}.values():
            summary.place(place)
        _change(summary, fix)
        if (why := words.reason(fix)) and not fixed.given:  # Else the first line has it.
            summary.indented(why, "yellow")
        for said in words.of_calls(fix.evidence):
            summary.indented(said)
        for caveat in words.caveats(fix):
            summary.indented(caveat, "yellow")
        summary.line()
    if not fixed.given:
        _unfixed(summary, report, fixed)
    _whole(summary, fixed)
    if fixed.kept and fixed.reproduce:
        summary.unwrapped(Text.assemble(("Reproduce  ", "dim"), one_line(command_line(fixed.reproduce))))
    if command := words.unsafe_command(report, fixed):
        summary.unwrapped(Text.assemble(("Apply, not verified  ", "dim"), one_line(command)))


def _heading(summary: Summary, fix: Fix) -> None:
    mark, style = _MARKS[fix.status]
    title = Text(one_line(fix.title), style="bold")
    ends = one_line(", ".join(fix.ends))
    title.append(f"  {ends}, {words.changes(fix)}, {words.STATUSES[fix.status]}", style="dim")
    summary.beside(Text.assemble((f"{mark} ", style), (one_line(fix.id), "dim")), title)


def _change(summary: Summary, fix: Fix) -> None:
    for line in fix.setting.splitlines():
        summary.setting(line)
    if fix.setting:
        summary.indented(words.WHERE_SETTINGS_GO, "dim", by=12)
    lines = [line.removesuffix("\r") for line in fix.patch.rstrip("\n").split("\n")] if fix.patch else []
    for line in lines[:_MOST_LINES]:
        shown = Text.assemble(("│ ", "dim"), (one_line(line), _STYLES.get(line[:1], "")))
        shown.no_wrap, shown.overflow = True, "ellipsis"
        summary.indented(shown)
    if len(lines) > _MOST_LINES:
        summary.indented(f"... {len(lines) - _MOST_LINES} more lines: --patch FILE", "dim")


def _unfixed(summary: Summary, report: Report, fixed: Fixed) -> None:
    suggested = words.suggested_breaks(report)
    left = [each for each in fixed.unfixed if each.break_id not in suggested]
    for each in left:
        summary.beside(
            Text("! ", style="bold yellow"), Text(f"{one_line(each.break_id)} stays: {one_line(each.gb_type)}")
        )
        if each.place is not None:
            summary.place(each.place)
        for said in words.why_it_stays(report, each):
            summary.indented(said, "dim")
    if left:
        summary.line()


def _whole(summary: Summary, fixed: Fixed) -> None:
    said = words.of_whole(fixed)
    title, rows = words.before_and_after(fixed)
    gain = words.gain(fixed.evidence)
    for each in said:
        summary.line(each)
    if said:
        summary.line()
    if rows:
        cells = [(name, str(before), str(after)) for name, before, after in rows]
        summary.rows((title, "before", "after"), cells, right=(1, 2), by=0)
        summary.line()
    if gain:
        summary.line(gain)
        summary.line()
