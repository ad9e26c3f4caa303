"""The graph breaks of the page, grouped by file; functions left in eager without one; sizes made constant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dynalyze.render.highlight import Code, code_at
from dynalyze.render.view.links import MAX_SIZES, MAX_SKIPPED, Anchors, Index, Link, Place, Shown, safe_url, shown
from dynalyze.report import Effect, ForcedSize, GraphBreak, Location, Report, SkippedFrame
from dynalyze.text.visible import clipped
from dynalyze.words.report import count_of, effect_words, short_path

MAX_BREAKS = 500
MAX_STACK = 200
MAX_CALLERS = 30
MAX_COMPILE_IDS = 40
MAX_TEXT = 4000


@dataclass(frozen=True)
class BreakView:
    id: str
    anchor: str
    gb_id: str
    title: str
    effect: Effect
    effect_words: str
    place: Place
    code: Code | None
    explanation: str
    consequence: str
    context: str
    hints: list[str]
    url: str
    stack: list[StackLine]
    stack_omitted: Shown
    callers: list[Place]
    callers_omitted: Shown
    seen: str
    compilations: list[Link]
    compilations_omitted: Shown
    fixes: list[Link]
    on_map: str


@dataclass(frozen=True)
class StackLine:
    place: Place
    code: str


@dataclass(frozen=True)
class FileGroup:
    """The breaks of one file."""

    anchor: str
    name: str
    path: str
    count: str
    breaks: list[BreakView]


@dataclass(frozen=True)
class BreaksView:
    groups: list[FileGroup]
    amount: Shown


def breaks_view(breaks: list[GraphBreak], links: Index, anchors: Anchors, on_map: Mapping[str, str]) -> BreaksView:
    """Group the breaks by file, files in the order in which they first broke.

    `on_map` tells where the map has a break, by the break's anchor.
    """
    some, amount = shown(breaks, MAX_BREAKS)
    by_file: dict[str, list[GraphBreak]] = {}
    for item in some:
        by_file.setdefault(item.location.file, []).append(item)
    groups = [_group(path, items, links, anchors, on_map) for path, items in by_file.items()]
    return BreaksView(groups, amount)


def _group(path: str, items: list[GraphBreak], links: Index, anchors: Anchors, on_map: Mapping[str, str]) -> FileGroup:
    name = short_path(path)
    return FileGroup(
        anchor=anchors.claim(f"breaks-in-{name}"),
        name=name,
        path=path,
        count=count_of(len(items), "break"),
        breaks=[_break(item, links, on_map) for item in items],
    )


def _break(item: GraphBreak, links: Index, on_map: Mapping[str, str]) -> BreakView:
    stack, stack_amount = shown(item.stack, MAX_STACK)
    callers, callers_amount = shown(item.callers, MAX_CALLERS)
    ids, ids_amount = shown(item.compile_ids, MAX_COMPILE_IDS)
    return BreakView(
        id=item.id,
        anchor=links.fact(item.id).anchor,
        gb_id=item.gb_id or "",
        title=clipped(item.gb_type, 300) or "Graph break",
        effect=item.effect,
        effect_words=effect_words(item.effect),
        place=links.place(item.location),
        code=code_at(item.location, item.snippet),
        explanation=clipped(item.explanation, MAX_TEXT),
        consequence=clipped(item.consequence, MAX_TEXT),
        context=clipped(item.context, MAX_TEXT),
        hints=[clipped(hint, MAX_TEXT) for hint in item.hints],
        url=safe_url(item.url),
        stack=[_stack_line(frame, links) for frame in stack],
        stack_omitted=stack_amount,
        callers=[links.place(caller) for caller in callers],
        callers_omitted=callers_amount,
        seen=_seen(item),
        compilations=[links.compilation(item.process, item.epoch, name) for name in ids],
        compilations_omitted=ids_amount,
        fixes=links.fix(item.id),
        on_map=on_map.get(links.fact(item.id).anchor, ""),
    )


def _seen(item: GraphBreak) -> str:
    times = count_of(item.occurrences, "time")
    return f"{times} in {len(item.processes)} processes" if len(item.processes) > 1 else times


def _stack_line(frame: Location, links: Index) -> StackLine:
    return StackLine(links.place(frame), clipped(frame.code or "", 300))


_MAX_WHY = 1000


@dataclass(frozen=True)
class SkippedFrameView:
    id: str
    anchor: str
    function: str
    place: Place
    entry: bool
    explanation: str
    tensors: bool


@dataclass(frozen=True)
class SkippedView:
    items: list[SkippedFrameView]
    amount: Shown


def skipped_view(report: Report, links: Index) -> SkippedView:
    """One row a function and reason; those that work on tensors first."""
    ordered = sorted(report.skipped_frames[:MAX_SKIPPED], key=lambda item: not item.tensors)
    _, amount = shown(report.skipped_frames, MAX_SKIPPED)
    return SkippedView([_frame(item, links) for item in ordered], amount)


def _frame(item: SkippedFrame, links: Index) -> SkippedFrameView:
    return SkippedFrameView(
        id=item.id,
        anchor=links.fact(item.id).anchor,
        function=item.location.function,
        place=links.place(item.location),
        entry=item.entry,
        explanation=clipped(item.explanation, _MAX_WHY),
        tensors=item.tensors,
    )


_MAX_SIZE = 400
MAX_VALUES = 8
MAX_LINKS = 8


@dataclass(frozen=True)
class ForcedSizeView:
    id: str
    anchor: str
    source: str
    values: str
    place: Place
    code: str
    refused: bool
    recompiles: list[Link]


@dataclass(frozen=True)
class ForcedSizesView:
    items: list[ForcedSizeView]
    amount: Shown


def forced_sizes_view(report: Report, links: Index) -> ForcedSizesView:
    """One row a size and line, those that cost something first."""
    some, amount = shown(report.forced_sizes, MAX_SIZES)
    ordered = sorted(some, key=lambda item: not (item.refused or item.recompiles))
    return ForcedSizesView([_size(item, links) for item in ordered], amount)


def _size(item: ForcedSize, links: Index) -> ForcedSizeView:
    more = ", ..." if len(item.values) > MAX_VALUES else ""
    return ForcedSizeView(
        id=item.id,
        anchor=links.fact(item.id).anchor,
        source=clipped(item.source or "", _MAX_SIZE),
        values=clipped(", ".join(item.values[:MAX_VALUES]) + more, _MAX_SIZE),
        place=links.place(item.location),
        code=clipped(item.location.code or "", _MAX_SIZE),
        refused=item.refused,
        recompiles=[links.fact(name) for name in item.recompiles[:MAX_LINKS]],
    )
