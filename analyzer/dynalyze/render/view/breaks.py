"""The graph breaks of the page, grouped by file; functions left in eager without one; sizes made constant."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.render.view.links import MAX_SIZES, MAX_SKIPPED, Anchors, Listed, Shown, shown
from dynalyze.report import ForcedSize, GraphBreak, Report, SkippedFrame
from dynalyze.words.report import short_path

MAX_BREAKS = 500


@dataclass(frozen=True)
class FileGroup:
    """The breaks of one file."""

    anchor: str
    path: str
    breaks: list[GraphBreak]


@dataclass(frozen=True)
class BreaksView:
    groups: list[FileGroup]
    amount: Shown


def breaks_view(breaks: list[GraphBreak], anchors: Anchors) -> BreaksView:
    """Group the breaks by file, files in the order in which they first broke."""
    some, amount = shown(breaks, MAX_BREAKS)
    by_file: dict[str, list[GraphBreak]] = {}
    for item in some:
        by_file.setdefault(item.location.file, []).append(item)
    groups = [FileGroup(anchors.claim(f"breaks-in-{short_path(path)}"), path, items) for path, items in by_file.items()]
    return BreaksView(groups, amount)


def skipped_view(report: Report) -> Listed[SkippedFrame]:
    """One row a function and reason; those that work on tensors first."""
    some, amount = shown(report.skipped_frames, MAX_SKIPPED)
    return Listed(sorted(some, key=lambda item: not item.tensors), amount)


def forced_sizes_view(report: Report) -> Listed[ForcedSize]:
    """One row a size and line, those that cost something first."""
    some, amount = shown(report.forced_sizes, MAX_SIZES)
    return Listed(sorted(some, key=lambda item: not (item.refused or item.recompiles)), amount)
