"""The way back: the lines of a graph's source, and the kernels that each of them became."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dynalyze.render.view.links import Anchors, Index, Link, Place, Shown, shown
from dynalyze.report import Direction, Kernel, Location
from dynalyze.text.visible import clipped

MAX_LINES = 100
MAX_KERNELS = 20
_LONGEST_CODE = 120
_LONGEST_NAME = 300

LineKey = tuple[str, int]


@dataclass(frozen=True)
class Use:
    """One kernel that a line is in; `calls` is "" for a single call."""

    kernel: Link
    calls: str


@dataclass(frozen=True)
class LineView:
    anchor: str
    place: Place
    code: str
    uses: list[list[Use]]
    omitted: int


@dataclass(frozen=True)
class LinesView:
    """`directions` are the columns of kernels; `uses` of a line has a list for each of them.

    `anchors` and `kernels` tell where each line stands and in how many kernels it is.
    """

    items: list[LineView]
    amount: Shown
    directions: list[Direction]
    with_code: bool
    anchors: dict[LineKey, str]
    kernels: dict[LineKey, int]


@dataclass
class _Line:
    location: Location
    used: list[tuple[Kernel, str, int]] = field(default_factory=list)


def lines_view(
    graph: str, kernels: Sequence[Kernel], kernel_anchors: Sequence[str], anchors: Anchors, links: Index
) -> LinesView:
    """The lines in the order of the source. Kernels without an anchor are named all the same."""
    found: dict[LineKey, _Line] = {}
    for index, kernel in enumerate(kernels):
        anchor = kernel_anchors[index] if index < len(kernel_anchors) else ""
        for number, location in enumerate(kernel.places):
            calls = kernel.place_calls[number] if number < len(kernel.place_calls) else kernel.calls
            line = found.setdefault((location.file, location.line), _Line(location))
            line.used.append((kernel, anchor, calls))
    keys, amount = shown(sorted(found), MAX_LINES)
    named = {key: anchors.claim(f"{graph}-line-{number}") for number, key in enumerate(keys, 1)}
    directions = list(dict.fromkeys(kernel.direction for kernel in kernels if kernel.places))
    items = [_line(found[key], named[key], directions, links) for key in keys]
    kernels_of = {key: len(found[key].used) for key in keys}
    return LinesView(items, amount, directions, any(item.code for item in items), named, kernels_of)


def _line(line: _Line, anchor: str, directions: list[Direction], links: Index) -> LineView:
    some, amount = shown(line.used, MAX_KERNELS)
    uses: list[list[Use]] = [[] for _ in directions]
    for kernel, kernel_anchor, calls in some:
        use = Use(Link(clipped(kernel.name, _LONGEST_NAME), kernel_anchor), f"{calls:,}" if calls > 1 else "")
        uses[directions.index(kernel.direction)].append(use)
    return LineView(
        anchor, links.place(line.location).short, clipped(line.location.code or "", _LONGEST_CODE), uses, amount.omitted
    )
