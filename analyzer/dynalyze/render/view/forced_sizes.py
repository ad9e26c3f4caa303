"""The dynamic sizes of the page that a line of the program made constants."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.render.view.links import MAX_SIZES, Index, Link, Place, Shown, shown
from dynalyze.report import ForcedSize, Report
from dynalyze.text.visible import clipped

MAX_TEXT = 400
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
        source=clipped(item.source or "", MAX_TEXT),
        values=clipped(", ".join(item.values[:MAX_VALUES]) + more, MAX_TEXT),
        place=links.place(item.location),
        code=clipped(item.location.code or "", MAX_TEXT),
        refused=item.refused,
        recompiles=[links.fact(name) for name in item.recompiles[:MAX_LINKS]],
    )
