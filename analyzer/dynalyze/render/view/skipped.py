"""The functions of the page that were left in eager without a graph break."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.render.view.links import MAX_SKIPPED, Index, Place, Shown, shown
from dynalyze.report import Report, SkippedFrame
from dynalyze.text.visible import clipped

MAX_TEXT = 1000


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
        explanation=clipped(item.explanation, MAX_TEXT),
        tensors=item.tensors,
    )
