"""The section on fixes: each with its change, line by line, and how it was checked; and what stays."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

from dynalyze.render.text import fixes as words
from dynalyze.render.view.links import Anchors, Index, Place, first
from dynalyze.report import Report
from dynalyze.report.fixes import Fix, FixStatus
from dynalyze.text.escape import clipped, visible

_MOST_FIXES, _MOST_LINES, _LONGEST = 40, 400, 400
_ORDER: tuple[FixStatus, ...] = ("verified", "suggested", "rejected")

LineKind = Literal["added", "removed", "place", "kept"]
_KINDS: dict[str, LineKind] = {"+": "added", "-": "removed", "@": "place"}


class DiffLine(NamedTuple):
    kind: LineKind
    text: str


class FixRow:
    """One fix: `places` are those of the breaks, or of the functions that recompiled, that it ends."""

    def __init__(self, fix: Fix, command: str, places: dict[str, Place], anchors: Anchors) -> None:
        lines = [line.removesuffix("\r") for line in fix.patch.removesuffix("\n").split("\n")] if fix.patch else []
        kinds = zip(_kinds(lines), lines[:_MOST_LINES], strict=False)
        self.fact = fix
        self.anchor = anchors.claim(f"fix-{fix.id}")
        self.status = f"{words.STATUSES[fix.status]}, {words.changes(fix)}"
        self.places = list(dict.fromkeys(places[name] for name in fix.ends if name in places))
        self.lines = [DiffLine(kind, visible(clipped(line, _LONGEST))) for kind, line in kinds]
        self.omitted = max(0, len(lines) - _MOST_LINES)
        self.command = command
        self.reason = words.reason(fix)
        self.compared = [] if fix.status == "rejected" else words.of_calls(fix.evidence)
        self.caveats = [] if fix.status == "rejected" else words.caveats(fix)


class FixesView:
    """What `dynalyze fix` found; falsy where that is nothing, and in other reports."""

    _found = False

    def __init__(self, report: Report, links: Index, anchors: Anchors) -> None:
        fixed = report.fixed
        if fixed is None:
            return
        self.all = words.write_command(report, fixed)
        title, self.table = words.before_and_after(fixed)
        self.counted = f"{title[:1].upper()}{title[1:]}"
        places = {each.id: links.place(each.location) for each in report.graph_breaks}
        places |= {each.id: links.place(each.location) for each in report.recompiles}
        ordered = sorted(report.fixes, key=lambda each: _ORDER.index(each.status))
        rows = [FixRow(each, words.apply_command(report, fixed, each), places, anchors) for each in ordered]
        self.shown = first(rows, _MOST_FIXES)
        suggested = words.suggested_breaks(report)
        left = [each for each in fixed.unfixed if each.break_id not in suggested]
        rows_left = [
            (each, links.place(each.place) if each.place else None, words.why_it_stays(report, each)) for each in left
        ]
        self.unfixed = first(rows_left, _MOST_FIXES)
        self._found = bool(rows or rows_left)

    def __bool__(self) -> bool:
        return self._found


def _kinds(lines: list[str]) -> list[LineKind]:
    """What each line of a diff is; the two that name a file are neither removed nor added."""
    kinds = [_KINDS.get(line[:1], "kept") for line in lines]
    for number, (one, other) in enumerate(pairwise(lines)):
        if one.startswith("--- ") and other.startswith("+++ "):
            kinds[number : number + 2] = ["place", "place"]
    return kinds
