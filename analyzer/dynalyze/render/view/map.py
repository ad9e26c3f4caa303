"""The map as a drawing: a circle for each compiled function, a diamond for each graph break, arrows between them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from dynalyze.render.graphml import break_node, compile_map, frame_of, node_of
from dynalyze.render.view.links import Anchors, Index, Link, first
from dynalyze.render.view.plots.drawing import shortened
from dynalyze.report import Compilation, Effect, GraphBreak, Report
from dynalyze.words.report import COMPILATION_WORDS, count_of, effect_words, line_words

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
            row.sort(key=lambda at: statistics.fmean([place[each] for each in neighbours[at]] or [place[at]]))
            place.update((at, float(column)) for column, at in enumerate(row))


MAX_NODES = 60
MAX_LISTED = 300

# The drawing's measures, in its own units, which are CSS pixels.
_COLUMNS = 4
_COLUMN, _ROW = 216, 72
_LEFT, _TOP = 34, 34
_SMALLEST, _LARGEST = 8.0, 24.0
_FEWEST_OF_LARGEST = 24
_DIAMOND = 7.0
_STACKED = 3
_LABEL_GAP = 8
_CHARACTERS, _NOTE_CHARACTERS = 22, 28
_LAST = 2

_EFFECTS: dict[Effect, str] = {
    "split": "graph cut in two",
    "partly_eager": "rest runs in eager",
    "eager": "all runs in eager",
    "error": "compile refused",
}

Relation = Literal["calls", "continues-after", "broke-at"]

_RELATION_WORDS: dict[Relation, str] = {
    "calls": "calls",
    "continues-after": "goes on after a break in",
    "broke-at": "broke at",
}


@dataclass
class _Frame:
    """All versions of one function, which the drawing shows as one stack."""

    versions: list[Compilation]

    @property
    def first(self) -> Compilation:
        return self.versions[0]

    @property
    def ops(self) -> int | None:
        return max((each.ops for each in self.versions if each.ops is not None), default=None)

    @property
    def name(self) -> str:
        return self.first.name or "?"


_Nodes = dict[str, "_Frame | GraphBreak"]
_Edges = dict[tuple[str, str], Relation]


class MapView:
    """The first frames and their breaks as a drawing, and all that can be listed as text.

    `anchors` tells where the drawing has a fact, by the anchor of that fact. `frames` are the functions as text: a
    link, a sentence, and what follows from each.
    """

    def __init__(self, report: Report, links: Index, anchors: Anchors) -> None:
        nodes, edges = _collapsed(report)
        drawn = dict(list(nodes.items())[:MAX_NODES])
        # How far left a node belongs: what goes on after a break stays below the beginning of its function.
        rank = {
            name: _LAST if isinstance(node, GraphBreak) else int(not node.first.resumes) for name, node in drawn.items()
        }
        in_order = sorted(drawn, key=lambda name: rank[name] == _LAST)  # Breaks lead nowhere: they may all come last.
        rows = _rows(layers(in_order, edges, rank), rank)
        scale = max([_FEWEST_OF_LARGEST, *(node.ops or 0 for node in nodes.values() if isinstance(node, _Frame))])
        at = {
            name: (_LEFT + column * _COLUMN, _TOP + row * _ROW)
            for row, names in enumerate(rows)
            for column, name in names
        }
        own = {name: anchors.claim(f"map-{_link(node, links).anchor or name}") for name, node in drawn.items()}
        steps: dict[str, list[tuple[str, Link]]] = {}
        for (source, end), relation in edges.items():
            steps.setdefault(source, []).append((_RELATION_WORDS[relation], _link(nodes[end], links)))
        frames = [
            (_link(node, links), _described(node), steps.get(name, []))
            for name, node in nodes.items()
            if isinstance(node, _Frame)
        ]
        self.width = _COLUMN * max((names[-1][0] + 1 for names in rows), default=0)
        self.height = _ROW * len(rows)
        self.nodes = [NodeView(node, own[name], at[name], scale, links) for name, node in drawn.items()]
        self.edges = [
            EdgeView(kind, at[a], at[b], _reach(drawn[a], scale), _reach(drawn[b], scale))
            for (a, b), kind in edges.items()
            if a in at and b in at
        ]
        self.omitted = len(nodes) - len(drawn)
        self.frames = first(frames, MAX_LISTED)
        self.anchors = {anchor: own[name] for name, node in drawn.items() for anchor in _anchors(node, links)}


class NodeView:
    """A node of the drawing; `kind` is a status of a compile, or "break". `stacked` are offsets of older versions.

    `id` is its own anchor, `anchor` that of what it stands for.
    """

    def __init__(self, node: _Frame | GraphBreak, own: str, at: tuple[int, int], scale: int, links: Index) -> None:
        self.id = own
        self.x, self.y = at
        self.radius = _reach(node, scale)
        if isinstance(node, _Frame):
            self.kind = str(node.versions[-1].status)
            self.stacked = [3 * depth for depth in range(min(len(node.versions) - 1, _STACKED), 0, -1)]
            name = node.name
            parts = [f"{'after line' if node.first.resumes else 'line'} {node.first.location.line}"]
            parts += [f"{node.ops:,} ops"] if node.ops is not None else []
            parts += [f"×{len(node.versions)}"] if len(node.versions) > 1 else []
            note = " · ".join(parts)
        else:
            self.kind, self.stacked = "break", []
            name, note = f"{node.id}, line {node.location.line}", _EFFECTS[node.effect]
        self.anchor = _link(node, links).anchor
        self.title = _described(node)
        self.name = shortened(name, _CHARACTERS)
        self.note = shortened(note, _NOTE_CHARACTERS)
        self.label_x = self.x + round(self.radius) + 3 * len(self.stacked) + _LABEL_GAP


class EdgeView:
    """A curve that leaves and arrives upright; one that passes a whole row swings out to the left of it."""

    def __init__(
        self, relation: Relation, source: tuple[int, int], end: tuple[int, int], leave: float, arrive: float
    ) -> None:
        down = 1 if end[1] > source[1] else -1
        x1, y1 = source[0], source[1] + down * round(leave)
        x2, y2 = end[0], end[1] - down * (round(arrive) + 7)
        swing = 26 if abs(end[1] - source[1]) > _ROW else 0
        middle = (y2 - y1) / 2
        self.relation = relation
        self.path = f"M{x1} {y1}C{x1 - swing} {y1 + middle:g} {x2 - swing} {y2 - middle:g} {x2} {y2}"
        self.head = f"M{x2 - 3.5} {y2}h7l-3.5 {down * 6}z"


def _collapsed(report: Report) -> tuple[_Nodes, _Edges]:
    """The map with all versions of a function in one node, each frame followed by the breaks first met in it."""
    graph = compile_map(report)
    frames: dict[object, _Frame] = {}
    for item in report.compilations:
        frames.setdefault(frame_of(item), _Frame([])).versions.append(item)
    holder = {node_of(item.key): node_of(frame.first.key) for frame in frames.values() for item in frame.versions}
    edges: _Edges = {}
    for source, end, attributes in graph.edges(data=True):
        pair = holder.get(source, source), holder.get(end, end)
        if attributes["relation"] in _RELATION_WORDS and pair[0] != pair[1]:
            edges.setdefault(pair, attributes["relation"])
    # A break reaches the callers of its function too: the drawing shows it at the function that holds the line.
    broke: dict[str, set[str]] = {}
    called: dict[str, list[str]] = {}
    for (source, end), relation in edges.items():
        if relation == "broke-at":
            broke.setdefault(source, set()).add(end)
        elif relation == "calls":
            called.setdefault(source, []).append(end)
    below = {
        source: set[str]().union(*(broke.get(callee, ()) for callee in called.get(source, ()))) for source in broke
    }
    edges = {pair: relation for pair, relation in edges.items() if pair[1] not in below.get(pair[0], ())}
    return _in_order(list(frames.values()), report.graph_breaks, edges), edges


def _in_order(frames: list[_Frame], breaks: list[GraphBreak], edges: _Edges) -> _Nodes:
    by_node = {break_node(each): each for each in breaks}
    met: dict[str, list[str]] = {}
    for source, end in edges:
        if end in by_node:
            met.setdefault(source, []).append(end)
    nodes: _Nodes = {}
    for frame in frames:
        name = node_of(frame.first.key)
        nodes[name] = frame
        nodes.update((each, by_node[each]) for each in met.get(name, ()) if each not in nodes)
    nodes.update((name, each) for name, each in by_node.items() if name not in nodes)
    return nodes


def _rows(found: list[list[str]], rank: dict[str, int]) -> list[list[tuple[int, str]]]:
    """Rows with their columns; a layer too wide for the page goes on in the next row.

    The first column is left to compiled functions, so that the parts of one that was cut stay in a line.
    """
    rows: list[list[tuple[int, str]]] = []
    for layer in found:
        rest = layer
        while rest:
            start = int(rank[rest[0]] == _LAST)
            rows.append(list(enumerate(rest[: _COLUMNS - start], start)))
            rest = rest[_COLUMNS - start :]
    return rows


def _reach(node: _Frame | GraphBreak, scale: int) -> float:
    """From the middle of a node to its rim. A circle's area grows with the operations, `scale` of them at most."""
    if isinstance(node, GraphBreak):
        return _DIAMOND
    share = min(1.0, (node.ops or 0) / scale)
    return round(math.sqrt(_SMALLEST**2 + share * (_LARGEST**2 - _SMALLEST**2)), 1)


def _described(node: _Frame | GraphBreak) -> str:
    """The whole of what a node stands for, as one sentence."""
    if isinstance(node, GraphBreak):
        return f"Graph break {node.id} at {line_words(node.location)}: {effect_words(node.effect)}"
    statuses = dict.fromkeys(COMPILATION_WORDS[each.status] for each in node.versions)
    parts = [f"{node.first.compile_id} {node.name}", line_words(node.first.location), ", then ".join(statuses)]
    if node.first.resumes:
        parts.insert(1, "the part after a break")
    if node.ops is not None:
        parts.append(count_of(node.ops, "operation"))
    if len(node.versions) > 1:
        parts.append(f"{count_of(len(node.versions), 'version')}")
    return ", ".join(parts)


def _link(node: _Frame | GraphBreak, links: Index) -> Link:
    return links.fact(node.id) if isinstance(node, GraphBreak) else links.compilation(*node.first.key)


def _anchors(node: _Frame | GraphBreak, links: Index) -> list[str]:
    """Where the page tells of what a node stands for: of every version of a function."""
    if isinstance(node, GraphBreak):
        return [links.fact(node.id).anchor]
    return [links.compilation(*each.key).anchor for each in node.versions]
