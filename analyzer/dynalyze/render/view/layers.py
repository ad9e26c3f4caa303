"""Layered layout of a directed graph: each node below all that lead to it, each row sorted to spare crossings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)

_SWEEPS = 3


def layers(
    nodes: Sequence[Node], edges: Iterable[tuple[Node, Node]], rank: Mapping[Node, int] | None = None
) -> list[list[Node]]:
    """The rows of the drawing, from the top.

    A node lies one row below the lowest of those before it. Only edges that go forward in the order of `nodes` count,
    so a cycle does no harm. Of nodes that might share a place, those of lower `rank` come first, then those that
    stand first in `nodes`: equal input, equal drawing.
    """
    order = {node: at for at, node in enumerate(nodes)}
    forward = sorted({(order[a], order[b]) for a, b in edges if a in order and b in order and order[a] < order[b]})
    above: dict[int, list[int]] = {at: [] for at in order.values()}
    below: dict[int, list[int]] = {at: [] for at in order.values()}
    depth = dict.fromkeys(order.values(), 0)
    for source, end in forward:  # Sorted by source: its own depth is settled by then.
        above[end].append(source)
        below[source].append(end)
        depth[end] = max(depth[end], depth[source] + 1)
    rows: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for at, row in depth.items():
        rows[row].append(at)
    if rank is not None:
        for members in rows:
            members.sort(key=lambda at: rank[nodes[at]])
    _sort(rows, above, below)
    return [[nodes[at] for at in row] for row in rows]


def _sort(rows: list[list[int]], above: dict[int, list[int]], below: dict[int, list[int]]) -> None:
    """Move each node to the mean place of its neighbours, downwards and upwards in turn; downwards comes last."""
    place = {at: float(column) for row in rows for column, at in enumerate(row)}
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = above if downwards else below
        for row in rows if downwards else reversed(rows):
            row.sort(key=_barycentre(neighbours, place))
            place.update((at, float(column)) for column, at in enumerate(row))


def _barycentre(neighbours: dict[int, list[int]], place: dict[int, float]) -> Callable[[int], float]:
    def mean(at: int) -> float:
        places = [place[each] for each in neighbours[at]]
        return sum(places) / len(places) if places else place[at]

    return mean
