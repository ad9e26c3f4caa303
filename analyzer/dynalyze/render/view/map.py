"""The map as a drawing: a circle for each compiled function, a diamond for each graph break, arrows between them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

import networkx as nx

from dynalyze.render.graphml import break_node, compile_map, frame_of, node_of
from dynalyze.render.view.links import Anchors, Index, Link, first
from dynalyze.render.view.plots.drawing import shortened
from dynalyze.render.words.report import COMPILATION_WORDS, count_of, effect_words, line_words
from dynalyze.report import Compilation, CompilationKey, Effect, GraphBreak, Report

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
_SWEEPS = 3
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

_Fact = list[Compilation] | GraphBreak
"""What a node stands for: all versions of one function, which are drawn as a stack, or a break."""

Node = TypeVar("Node", bound=Hashable)


class MapView:
    """The first frames and their breaks as a drawing, and all that can be listed as text.

    `anchors` tells where the drawing has a fact, by the anchor of that fact. `frames` are the functions as text: a
    link, a sentence, and what follows from each.
    """

    def __init__(self, report: Report, links: Index, anchors: Anchors) -> None:
        graph, facts = _collapsed(report)
        drawn = dict(list(facts.items())[:MAX_NODES])
        # How far left a node belongs: what goes on after a break stays below the beginning of its function.
        rank = {
            name: _LAST if isinstance(fact, GraphBreak) else int(not fact[0].resumes) for name, fact in drawn.items()
        }
        in_order = sorted(drawn, key=lambda name: rank[name] == _LAST)  # Breaks lead nowhere: they may all come last.
        rows = _rows(layers(in_order, graph.edges, rank), rank)
        at = {
            name: (_LEFT + column * _COLUMN, _TOP + row * _ROW)
            for row, names in enumerate(rows)
            for column, name in names
        }
        scale = max([_FEWEST_OF_LARGEST, *(_ops(fact) or 0 for fact in facts.values())])
        reach = {name: _reach(fact, scale) for name, fact in drawn.items()}
        own = {name: anchors.claim(f"map-{_link(fact, links).anchor or name}") for name, fact in drawn.items()}
        frames = [
            (_link(fact, links), _described(fact), [
                (_RELATION_WORDS[edge["relation"]], _link(facts[end], links)) for end, edge in graph[name].items()
            ])
            for name, fact in facts.items()
            if not isinstance(fact, GraphBreak)
        ]  # fmt: skip
        self.width = _COLUMN * max((names[-1][0] + 1 for names in rows), default=0)
        self.height = _ROW * len(rows)
        self.nodes = [NodeView(fact, own[name], at[name], reach[name], links) for name, fact in drawn.items()]
        self.edges = [
            _curve(edge["relation"], at[a], at[b], reach[a], reach[b])
            for a, b, edge in graph.edges(data=True)
            if a in at and b in at
        ]
        self.omitted = len(facts) - len(drawn)
        self.frames = first(frames, MAX_LISTED)
        self.anchors = {anchor: own[name] for name, fact in drawn.items() for anchor in _anchors(fact, links)}


class NodeView:
    """A node of the drawing; `kind` is a status of a compile, or "break". `stacked` are offsets of older versions.

    `id` is its own anchor, `anchor` that of what it stands for.
    """

    def __init__(self, fact: _Fact, own: str, at: tuple[int, int], reach: float, links: Index) -> None:
        self.id = own
        self.x, self.y = at
        self.radius = reach
        if isinstance(fact, GraphBreak):
            self.kind, self.stacked = "break", list[int]()
            name, note = f"{fact.id}, line {fact.location.line}", _EFFECTS[fact.effect]
        else:
            self.kind = str(fact[-1].status)
            self.stacked = [3 * depth for depth in range(min(len(fact) - 1, _STACKED), 0, -1)]
            ops, line = _ops(fact), fact[0].location.line
            parts = [f"after line {line}" if fact[0].resumes else f"line {line}"]
            parts += [f"{ops:,} ops"] if ops is not None else []
            parts += [f"×{len(fact)}"] if len(fact) > 1 else []
            name, note = fact[0].name or "?", " · ".join(parts)
        self.anchor = _link(fact, links).anchor
        self.title = _described(fact)
        self.name = shortened(name, _CHARACTERS)
        self.note = shortened(note, _NOTE_CHARACTERS)
        self.label_x = self.x + round(self.radius) + 3 * len(self.stacked) + _LABEL_GAP


class Curve(NamedTuple):
    relation: Relation
    path: str
    head: str


def layers(
    nodes: Sequence[Node], edges: Iterable[tuple[Node, Node]], rank: Mapping[Node, int] | None = None
) -> list[list[Node]]:
    """The rows of the drawing, from the top, each node one row below the lowest of those before it.

    Only edges that go forward in the order of `nodes` count, so a cycle does no harm. In a row a node moves to the mean
    place of its neighbours. Of nodes that might share a place, those of lower `rank` come first, then those that stand
    first in `nodes`: equal input, equal drawing.
    """
    order = {node: at for at, node in enumerate(nodes)}
    forward: nx.DiGraph[Node] = nx.DiGraph()
    forward.add_nodes_from(nodes)
    forward.add_edges_from((a, b) for a, b in edges if a in order and b in order and order[a] < order[b])
    rows = [
        sorted(row, key=lambda node: (rank[node] if rank is not None else 0, order[node]))
        for row in nx.topological_generations(forward)
    ]
    place = {node: float(column) for row in rows for column, node in enumerate(row)}
    for sweep in range(_SWEEPS):  # Downwards and upwards in turn; downwards comes last.
        downwards = sweep % 2 == 0
        neighbours = forward.predecessors if downwards else forward.successors
        for row in rows if downwards else reversed(rows):
            row.sort(key=lambda node: statistics.fmean([place[each] for each in neighbours(node)] or [place[node]]))
            place.update((node, float(column)) for column, node in enumerate(row))
    return rows


def _curve(relation: Relation, source: tuple[int, int], end: tuple[int, int], leave: float, arrive: float) -> Curve:
    """It leaves and arrives upright; one that passes a whole row swings out to the left of it."""
    down = 1 if end[1] > source[1] else -1
    x1, y1 = source[0], source[1] + down * round(leave)
    x2, y2 = end[0], end[1] - down * (round(arrive) + 7)
    swing = 26 if abs(end[1] - source[1]) > _ROW else 0
    middle = (y2 - y1) / 2
    path = f"M{x1} {y1}C{x1 - swing} {y1 + middle:g} {x2 - swing} {y2 - middle:g} {x2} {y2}"
    return Curve(relation, path, f"M{x2 - 3.5} {y2}h7l-3.5 {down * 6}z")


def _collapsed(report: Report) -> tuple[nx.DiGraph[str], dict[str, _Fact]]:
    """The map with all versions of a function in one node; and its facts, each frame followed by the breaks first met
    in it.
    """
    frames: dict[CompilationKey, list[Compilation]] = {}
    for item in report.compilations:
        frames.setdefault(frame_of(item), []).append(item)
    holder = {node_of(item.key): node_of(versions[0].key) for versions in frames.values() for item in versions}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(holder.values())
    for source, end, edge in compile_map(report).edges(data=True):
        pair, relation = (holder.get(source, source), holder.get(end, end)), edge["relation"]
        if relation in _RELATION_WORDS and pair[0] != pair[1] and not graph.has_edge(*pair):
            graph.add_edge(*pair, relation=relation)
    # A break reaches the callers of its function too: the drawing shows it at the function that holds the line.
    breaks = {break_node(each): each for each in report.graph_breaks}
    graph.remove_edges_from([(a, b) for a, b in graph.edges if b in breaks and _is_inside(graph, a, b)])
    facts: dict[str, _Fact] = {}
    for versions in frames.values():
        name = node_of(versions[0].key)
        facts[name] = versions
        facts.update((end, breaks[end]) for end in graph[name] if end in breaks and end not in facts)
    return graph, {**facts, **{name: each for name, each in breaks.items() if name not in facts}}


def _is_inside(graph: nx.DiGraph[str], caller: str, found: str) -> bool:
    """Whether a function that this one calls has the break too."""
    return any(edge["relation"] == "calls" and graph.has_edge(end, found) for end, edge in graph[caller].items())


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


def _ops(fact: _Fact) -> int | None:
    """The operations of the largest version."""
    if isinstance(fact, GraphBreak):
        return None
    return max((each.ops for each in fact if each.ops is not None), default=None)


def _reach(fact: _Fact, scale: int) -> float:
    """From the middle of a node to its rim. A circle's area grows with the operations, `scale` of them at most."""
    if isinstance(fact, GraphBreak):
        return _DIAMOND
    share = min(1.0, (_ops(fact) or 0) / scale)
    return round(math.sqrt(_SMALLEST**2 + share * (_LARGEST**2 - _SMALLEST**2)), 1)


def _described(fact: _Fact) -> str:
    """The whole of what a node stands for, as one sentence."""
    if isinstance(fact, GraphBreak):
        return f"Graph break {fact.id} at {line_words(fact.location)}: {effect_words(fact.effect)}"
    frame, ops = fact[0], _ops(fact)
    statuses = dict.fromkeys(COMPILATION_WORDS[each.status] for each in fact)
    parts = [
        f"{frame.compile_id} {frame.name or '?'}",
        "the part after a break" if frame.resumes else "",
        line_words(frame.location),
        ", then ".join(statuses),
        "" if ops is None else count_of(ops, "operation"),
        count_of(len(fact), "version") if len(fact) > 1 else "",
    ]
    return ", ".join(filter(None, parts))


def _link(fact: _Fact, links: Index) -> Link:
    return links.fact(fact.id) if isinstance(fact, GraphBreak) else links.compilation(*fact[0].key)


def _anchors(fact: _Fact, links: Index) -> list[str]:
    """Where the page tells of what a node stands for: of every version of a function."""
    if isinstance(fact, GraphBreak):
        return [links.fact(fact.id).anchor]
    return [links.compilation(*each.key).anchor for each in fact]
