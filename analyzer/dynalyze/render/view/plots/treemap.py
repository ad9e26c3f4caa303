"""Kernels as areas: each as large as the operations that it holds times the places that call it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Shape
from dynalyze.report import Kernel, KernelKind
from dynalyze.text.amounts import count_of
from dynalyze.text.visible import clipped, visible

MAX_KERNELS = 150

_WIDTH, _HEIGHT = 760.0, 260.0
_CHARACTER, _LEAST_HEIGHT = 6.6, 16.0
_LONGEST = 300
KERNEL_KINDS: dict[KernelKind, str] = {
    "cpp": "generated C++",
    "triton": "generated Triton",
    "extern": "library call",
    "fallback": "eager kernel",
    "other": "generated",
}


class _Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def kernel_treemap(kernels: Sequence[Kernel], anchors: Sequence[str] = (), most: int = MAX_KERNELS) -> Plot | None:
    """All kernels of all graphs by what is in them; None with fewer than three, which a table tells better.

    `anchors` tells for each kernel where the page lists it, "" for nowhere.
    """
    largest = sorted(range(len(kernels)), key=lambda at: -_size(kernels[at]))[:most]
    ordered = [kernels[at] for at in largest]
    if len(ordered) < 3:
        return None
    boxes = _squarified([float(_size(each)) for each in ordered], _Box(0, 0, _WIDTH, _HEIGHT))
    shapes: list[Shape] = []
    for at, box in zip(largest, boxes, strict=True):
        shapes += _drawn(kernels[at], box, anchors[at] if at < len(anchors) else "")
    note = "The area is the number of operations in a kernel times the places that call it, not its time."
    if len(ordered) < len(kernels):
        note += f" {len(ordered):,} of {len(kernels):,} kernels are drawn, the largest."
    kinds = [kind for kind in KERNEL_KINDS if any(each.kind == kind for each in ordered)]
    told = []
    for kind in kinds:
        alike = [each for each in kernels if each.kind == kind]
        ops = sum(len(each.ops) * each.calls for each in alike)
        told.append(f"{KERNEL_KINDS[kind]}: {count_of(len(alike), 'kernel')} with {count_of(ops, 'operation')}")
    return Plot(
        "kernel-treemap",
        "What is in the kernels",
        "; ".join(told),
        int(_WIDTH),
        _HEIGHT,
        shapes,
        [(f"kernel {kind}", KERNEL_KINDS[kind]) for kind in kinds],
        note,
    )


def _size(kernel: Kernel) -> int:
    return max(len(kernel.ops), 1) * max(kernel.calls, 1)


def _drawn(kernel: Kernel, box: _Box, anchor: str) -> Iterator[Shape]:
    ops = ", ".join(kernel.ops)
    told = f"{kernel.graph} {kernel.name}, {KERNEL_KINDS[kernel.kind]}, {count_of(kernel.calls, 'call')}: {ops}"
    title = clipped(visible(told), _LONGEST)
    yield draw.Rect(f"kernel {kernel.kind}", box.x, box.y, box.width, box.height, title, anchor)
    room = int((box.width - 8) / _CHARACTER)
    name = visible(ops.replace("aten.", "") or kernel.name)
    if box.height >= _LEAST_HEIGHT and room >= 3:
        shown = name if len(name) <= room else f"{name[: room - 1]}…"
        yield draw.Label("tick", box.x + 4, round(box.y + min(box.height / 2 + 4, 16), 1), shown)


def _squarified(sizes: Sequence[float], space: _Box) -> list[_Box]:
    """Boxes of these relative sizes (largest first) that fill the space, none thinner than need be.

    The squarified treemap of Bruls, Huizing and van Wijk (2000): a row grows as long as that makes its worst side
    ratio better.
    """
    scale = space.width * space.height / sum(sizes)
    areas = [size * scale for size in sizes]
    boxes: list[_Box] = []
    while areas:
        row = 1
        side = min(space.width, space.height)
        while row < len(areas) and _worst(areas[: row + 1], side) <= _worst(areas[:row], side):
            row += 1
        placed, space = _row(areas[:row], space)
        boxes += placed
        areas = areas[row:]
    return boxes


def _worst(row: Sequence[float], side: float) -> float:
    total = sum(row)
    if not total or not side:
        return float("inf")
    return max(side * side * max(row) / (total * total), total * total / (side * side * min(row)))


def _row(row: Sequence[float], space: _Box) -> tuple[list[_Box], _Box]:
    """The row laid along the shorter side, and the space that is left."""
    upright = space.width >= space.height
    side = space.height if upright else space.width
    depth = sum(row) / side if side else 0.0
    boxes, at = [], 0.0
    for area in row:
        length = area / depth if depth else 0.0
        box = (space.x, space.y + at, depth, length) if upright else (space.x + at, space.y, length, depth)
        boxes.append(_Box(*(round(each, 1) for each in box)))
        at += length
    if upright:
        return boxes, _Box(space.x + depth, space.y, space.width - depth, space.height)
    return boxes, _Box(space.x, space.y + depth, space.width, space.height - depth)
