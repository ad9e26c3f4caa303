"""The map as a drawing: a tree with a circle for each compiled function and a diamond for each graph break."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

import networkx as nx

from dynalyze.render.graphml import break_node, compile_map, frame_of, node_of
from dynalyze.render.text.report import COMPILATION_WORDS, count_of, effect_words, line_words
from dynalyze.render.view.links import Index, Link, first
from dynalyze.render.view.plots.drawing import shortened
from dynalyze.report import Compilation, CompilationKey, GraphBreak, Report

MAX_NODES = 60
MAX_LISTED = 300

# The drawing's measures, in its own units, which are CSS pixels.
_LEFT, _TOP = 16, 16
_INDENT, _ROW = 28, 26
RADIUS = 6
_LABEL_GAP = 8
_CHARACTERS = 120
_WIDE, _NARROW = 7.4, 6.4
"""The most that a character of a name and of a note takes."""

Relation = Literal["calls", "continues-after", "broke-at"]
_ORDER: tuple[Relation, ...] = ("broke-at", "calls", "continues-after")

_RELATION_WORDS: dict[Relation, str] = {
    "calls": "calls",
    "continues-after": "goes on after a break in",
    "broke-at": "broke at",
}

_Fact = list[Compilation] | GraphBreak
"""What a node stands for: all versions of one function, or a break."""

Node = TypeVar("Node", bound=Hashable)


class MapView:
    """The first frames and their breaks as a drawing, a row each, and all that can be listed as text.

    `frames` are the functions as text: a link, a sentence, and what follows from each.
    """

    def __init__(self, report: Report, links: Index) -> None:
        graph, facts = _collapsed(report)
        graph.add_nodes_from(facts)
        drawn = dict(list(facts.items())[:MAX_NODES])
        branches = tree(list(drawn), graph.subgraph(drawn))
        nodes = {
            each.name: NodeView(drawn[each.name], (_LEFT + each.depth * _INDENT, _TOP + row * _ROW), links)
            for row, each in enumerate(branches)
        }
        frames = [
            (_link(fact, links), _described(fact, links), [
                (_RELATION_WORDS[edge["relation"]], _link(facts[end], links)) for end, edge in graph[name].items()
            ])
            for name, fact in facts.items()
            if not isinstance(fact, GraphBreak)
        ]  # fmt: skip
        self.width = max((node.end for node in nodes.values()), default=0)
        self.height = _ROW * len(branches)
        self.nodes = list(nodes.values())
        self.edges = [_edge(each.relation, nodes[each.parent], nodes[each.name]) for each in branches if each.parent]
        self.omitted = len(facts) - len(drawn)
        self.frames = first(frames, MAX_LISTED)


class NodeView:
    """A node of the drawing; `kind` is a status of a compile, or "break". `anchor` is that of what it stands for, `end`
    is where its label ends.
    """

    def __init__(self, fact: _Fact, at: tuple[int, int], links: Index) -> None:
        self.x, self.y = at
        if isinstance(fact, GraphBreak):
            self.kind = "break"
            name, note = f"{fact.id}, line {fact.location.line}", effect_words(fact.effect)
        else:
            self.kind = str(fact[-1].status)
            ops, line = _ops(fact), fact[0].location.line
            parts = [f"after line {line}" if fact[0].resumes else f"line {line}"]
            parts += [f"{ops:,} ops"] if ops is not None else []
            parts += [f"×{len(fact)}"] if len(fact) > 1 else []
            name, note = links.function(fact[0].location) or fact[0].name or "?", " · ".join(parts)
        self.anchor = _link(fact, links).anchor
        self.title = _described(fact, links)
        self.name = shortened(name, _CHARACTERS)
        self.note = note
        self.label_x = self.x + RADIUS + _LABEL_GAP
        self.end = self.label_x + round(_WIDE * len(self.name) + _NARROW * len(note)) + 3 * _LABEL_GAP


class Edge(NamedTuple):
    relation: Relation
    path: str
    head: str


class Branch(NamedTuple, Generic[Node]):
    """A row of the drawing: what stands there, how far it is indented, and the node that it hangs on."""

    name: Node
    depth: int
    parent: Node | None
    relation: Relation


def tree(nodes: Sequence[Node], graph: nx.DiGraph[Node]) -> list[Branch[Node]]:
    """The rows of the drawing: each node once, below the first that leads to it, and what that calls before what goes
    on after it. The part after a break stands under its function, not in it. Labels stand to the right of all lines.
    """
    rows: list[Branch[Node]] = []
    seen: set[Node] = set()
    order = {node: at for at, node in enumerate(nodes)}
    roots = sorted(nodes, key=lambda node: (bool(graph.pred[node]), order[node]))
    # The last is taken first; what lies in a cycle has no root and comes at last.
    waiting = [Branch[Node](node, 0, None, "calls") for node in reversed(roots)]
    while waiting:
        row = waiting.pop()
        if row.name in seen:
            continue
        seen.add(row.name)
        rows.append(row)
        ends = [(end, edge["relation"]) for end, edge in graph[row.name].items()]
        ends.sort(key=lambda pair: (_ORDER.index(pair[1]), order[pair[0]]), reverse=True)
        waiting += [
            Branch(end, row.depth + (relation != "continues-after"), row.name, relation) for end, relation in ends
        ]
    return rows


def _edge(relation: Relation, source: NodeView, end: NodeView) -> Edge:
    top = source.y + RADIUS
    if end.x == source.x:
        tip = end.y - RADIUS - 6
        return Edge(relation, f"M{source.x} {top}V{tip}", f"M{end.x - 3.5} {tip}h7l-3.5 6z")
    tip = end.x - RADIUS - 6
    return Edge(relation, f"M{source.x} {top}V{end.y}H{tip}", f"M{tip} {end.y - 3.5}v7l6 -3.5z")


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


def _ops(fact: _Fact) -> int | None:
    """The operations of the largest version."""
    if isinstance(fact, GraphBreak):
        return None
    return max((each.ops for each in fact if each.ops is not None), default=None)


def _described(fact: _Fact, links: Index) -> str:
    """The whole of what a node stands for, as one sentence."""
    if isinstance(fact, GraphBreak):
        return f"Graph break {fact.id} at {line_words(fact.location)}: {effect_words(fact.effect)}"
    frame, ops = fact[0], _ops(fact)
    statuses = dict.fromkeys(COMPILATION_WORDS[each.status] for each in fact)
    parts = [
        f"{frame.compile_id} {links.function(frame.location) or frame.name or '?'}",
        "the part after a break" if frame.resumes else "",
        line_words(frame.location),
        ", then ".join(statuses),
        "" if ops is None else count_of(ops, "operation"),
        count_of(len(fact), "version") if len(fact) > 1 else "",
    ]
    return ", ".join(filter(None, parts))


def _link(fact: _Fact, links: Index) -> Link:
    return links.fact(fact.id) if isinstance(fact, GraphBreak) else links.compilation(*fact[0].key)
