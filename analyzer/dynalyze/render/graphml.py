"""The map of a run as one directed graph, with who calls whom and what followed, and its GraphML for Gephi and others.

Node kinds: `frame` (a function's first compile), `version` (one of its recompiles), `graph`, `break`.
Relations: `calls`, `continues-after` (the part of a function after a break), `recompiled-to`, `broke-at`, `produced`.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right, insort
from typing import TypeVar

import networkx as nx

from dynalyze.render.text.report import compilation_name
from dynalyze.report import Compilation, CompilationKey, GraphBreak, Location, Report


def compile_map(report: Report) -> nx.DiGraph[str]:
    """The graph. Attributes are texts and numbers; none holds a line of code."""
    found: nx.DiGraph[str] = nx.DiGraph()
    compiles = _Compiles()
    broken_in: dict[CompilationKey, list[GraphBreak]] = {}
    for each in report.graph_breaks:
        for key in _keys(each):
            broken_in.setdefault(key, []).append(each)
    replaced = {r.key: r.previous for r in report.recompiles}
    for item in report.compilations:
        before = compiles.previous(item, replaced.get(item.key))
        _add(
            found, node_of(item.key), kind="frame" if before is None else "version", label=compilation_name(*item.key),
            compile_id=item.compile_id, process=item.process, epoch=item.epoch, function=item.name,
            file=item.location.file, line=item.location.line, status=item.status, resumes=int(item.resumes),
            operations=item.ops, began=item.began, seconds=item.seconds.get("total"),
        )  # fmt: skip
        if before is not None:
            found.add_edge(node_of(before.key), node_of(item.key), relation="recompiled-to")
        _add_way_in(found, item, compiles, broken_in)
        compiles.add(item)
    _add_breaks(found, report.graph_breaks, compiles)
    _add_graphs(found, report)
    return found


def node_of(key: CompilationKey) -> str:
    return f"compile {compilation_name(*key)}"


def break_node(found: GraphBreak) -> str:
    return f"break {found.id}"


def frame_of(item: Compilation) -> CompilationKey:
    """What all versions of one compiled function share: its compile id without the count of its compiles."""
    return item.process, item.epoch, item.compile_id.rpartition("/")[0] or item.compile_id


class _Compiles:
    """The compiles so far: by their ids, and by the function and line at which their code begins."""

    def __init__(self) -> None:
        self.by_key: dict[CompilationKey, Compilation] = {}
        self._latest: dict[CompilationKey, Compilation] = {}
        self._beginning: dict[tuple[int, int, str, str], list[tuple[int, int]]] = {}
        self._in_order: list[Compilation] = []

    def add(self, item: Compilation) -> None:
        self.by_key[item.key] = item
        self._latest[frame_of(item)] = item
        beginnings = self._beginning.setdefault(_function(item, item.location), [])
        insort(beginnings, (item.location.line, len(self._in_order)))
        self._in_order.append(item)

    def previous(self, item: Compilation, replaced: str | None) -> Compilation | None:
        named = self.by_key.get((item.process, item.epoch, replaced or ""))
        return named or self._latest.get(frame_of(item))

    def around(self, item: Compilation) -> Compilation | None:
        """The compile whose code called this one; for the part after a break, the one that broke there.

        It is the newest of those that begin nearest above the line, in a function of that name.
        """
        caller = item.location if item.resumes else item.caller
        if caller is None:
            return None
        beginnings = self._beginning.get(_function(item, caller), [])
        at = bisect_right(beginnings, (caller.line, len(self._in_order)))
        for _, order in reversed(beginnings[:at]):
            found = self._in_order[order]
            if not item.resumes or (found.status == "broken" and frame_of(found) != frame_of(item)):
                return found
        return None


def _function(item: Compilation, location: Location) -> tuple[int, int, str, str]:
    return item.process, item.epoch, location.file, location.function.rpartition(".")[2]


def _keys(found: GraphBreak) -> list[CompilationKey]:
    processes = found.processes or [found.process]
    return [(process, found.epoch, compile_id) for process in processes for compile_id in found.compile_ids]


def _add_way_in(
    graph: nx.DiGraph[str], item: Compilation, compiles: _Compiles, broken_in: dict[CompilationKey, list[GraphBreak]]
) -> None:
    source = compiles.around(item)
    if source is None or graph.has_edge(node_of(source.key), node_of(item.key)):
        return
    if not item.resumes:
        graph.add_edge(
            node_of(source.key), node_of(item.key), relation="calls", line=item.caller.line if item.caller else 0
        )
        return
    breaks = broken_in.get(source.key, [])
    names = [each.id for each in breaks if item.location.at in [line.at for line in each.stack]]
    graph.add_edge(node_of(source.key), node_of(item.key), relation="continues-after", breaks=", ".join(names))


def _add_breaks(graph: nx.DiGraph[str], breaks: list[GraphBreak], compiles: _Compiles) -> None:
    for each in breaks:
        _add(
            graph, break_node(each), kind="break", label=each.id, gb_id=each.gb_id, gb_type=each.gb_type,
            effect=each.effect, function=each.location.function, file=each.location.file, line=each.location.line,
            occurrences=each.occurrences,
        )  # fmt: skip
        for key in _keys(each):
            if key in compiles.by_key:
                graph.add_edge(node_of(key), break_node(each), relation="broke-at")


def _add_graphs(graph: nx.DiGraph[str], report: Report) -> None:
    for each in report.graphs:
        name = f"graph {each.id}"
        _add(graph, name, kind="graph", label=each.id, operations=each.ops, process=each.process, epoch=each.epoch)
        source = node_of(each.key)
        if source in graph:
            graph.add_edge(source, name, relation="produced")


def _add(graph: nx.DiGraph[str], name: str, **attributes: str | float | None) -> None:
    graph.add_node(name, **{key: value for key, value in attributes.items() if value is not None})


Value = TypeVar("Value", str, float)

# XML 1.0 has no way to write these, escaped or not.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    graph = compile_map(report)
    writable: nx.DiGraph[str] = nx.DiGraph()
    for name, attributes in graph.nodes(data=True):
        writable.add_node(_text(name), **{key: _text(value) for key, value in attributes.items()})
    for source, end, attributes in graph.edges(data=True):
        writable.add_edge(_text(source), _text(end), **{key: _text(value) for key, value in attributes.items()})
    file = io.BytesIO()
    nx.write_graphml_xml(writable, file, encoding="utf-8", prettyprint=True)
    return file.getvalue().decode("utf-8") + "\n"


def _text(value: Value) -> Value:
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value
