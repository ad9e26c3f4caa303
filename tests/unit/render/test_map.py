"""The map: who calls whom, what follows a break, and its drawing."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.facts.breaks import graph_breaks
from dynalyze.facts.compilations import compilations
from dynalyze.facts.recompiles import recompiles
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.render import graphml
from dynalyze.render.graphml import compile_map
from dynalyze.render.view.links import Anchors, Index
from dynalyze.render.view.map import RADIUS, MapView, tree
from dynalyze.report import Compilation, CompilationStatus, GraphBreak, Location, Report
from dynalyze.report.code import SourceFile, SourceFunction
from recordings import as_run, recorded
from records import TORCH
from sample_reports import MODEL, empty_report, graph_break, hostile_report, recompile, rich_report

Relations = set[tuple[str, str, str]]


def frame(
    compile_id: str,
    line: int,
    function: str = "forward",
    caller: tuple[int, str] | None = None,
    status: CompilationStatus = "compiled",
    resumes: bool = False,
    ops: int | None = 3,
    process: int = 0,
) -> Compilation:
    called_at = Location(MODEL, caller[0], None, caller[1]) if caller else None
    return Compilation(
        compile_id, process, 0, Location(MODEL, line, None, function), status,
        function=function, ops=ops, resumes=resumes, caller=called_at,
    )  # fmt: skip


def broke(identity: str, line: int, compile_ids: list[str], stack: tuple[int, ...] = ()) -> GraphBreak:
    location = Location(MODEL, line, None, "forward")
    above = [Location(MODEL, each, None, "forward") for each in stack]
    return graph_break(identity, "split", location, stack=[*above, location], compile_ids=compile_ids)


def report_of(found: list[Compilation], breaks: list[GraphBreak] | None = None) -> Report:
    report = empty_report()
    report.compilations, report.graph_breaks = found, breaks or []
    return report


def relations(report: Report) -> Relations:
    graph = compile_map(report)
    found = set()
    for source, end, attributes in graph.edges(data=True):
        found.add((source.rpartition(" ")[2], attributes["relation"], end.rpartition(" ")[2]))
    return found


def test_a_function_calls_the_one_that_is_compiled_at_its_line() -> None:
    report = report_of([frame("0/0", 10, "Net.forward"), frame("1/0", 40, "helper", caller=(14, "forward"))])
    assert relations(report) == {("0/0", "calls", "1/0")}


def test_the_caller_is_the_function_that_begins_nearest_above() -> None:
    found = [frame("0/0", 10, "A.forward"), frame("1/0", 30, "B.forward"), frame("2/0", 50, "h", (34, "forward"))]
    assert relations(report_of(found)) == {("1/0", "calls", "2/0")}


def test_another_process_calls_nothing_here() -> None:
    found = [frame("0/0", 10, "forward"), frame("1/0", 50, "helper", (14, "forward"), process=1)]
    assert relations(report_of(found)) == set()


def test_the_part_after_a_break_goes_on_from_the_part_that_broke() -> None:
    found = [
        frame("0/0", 10, "Net.forward", status="broken"),
        frame("1/0", 12, resumes=True, status="broken"),
        frame("2/0", 14, resumes=True),
    ]
    breaks = [broke("b1", 12, ["0/0"]), broke("b2", 14, ["1/0"])]
    assert relations(report_of(found, breaks)) == {
        ("0/0", "broke-at", "b1"),
        ("0/0", "continues-after", "1/0"),
        ("1/0", "broke-at", "b2"),
        ("1/0", "continues-after", "2/0"),
    }
    graph = compile_map(report_of(found, breaks))
    assert graph.edges["compile 1/0", "compile 2/0"]["breaks"] == "b2"


def test_a_recompile_follows_the_version_that_it_replaced() -> None:
    report = report_of([frame("0/0", 10), frame("0/1", 10), frame("0/2", 10)])
    assert relations(report) == {("0/0", "recompiled-to", "0/1"), ("0/1", "recompiled-to", "0/2")}
    report.recompiles = [recompile("r1", "0/2", previous="0/0")]
    assert ("0/0", "recompiled-to", "0/2") in relations(report)
    kinds = Counter(kind for _, kind in compile_map(report).nodes(data="kind"))
    assert kinds == {"frame": 1, "version": 2}


@pytest.mark.parametrize("name", ["nested_helpers", "two_breaks_in_a_row", "one_helper_two_callers"])
def test_every_part_of_a_recorded_program_hangs_together(name: str, tmp_path: Path) -> None:
    """Whatever runs after a break goes on from somewhere, and nothing calls what came before it."""
    run, places, sources = as_run(recorded(name), tmp_path), Places(TORCH), Sources()
    report = empty_report()
    report.compilations = compilations(run, places, sources)
    report.graph_breaks = graph_breaks(run, places, sources, registry())
    report.recompiles = recompiles(run, report.compilations, report.graph_breaks)
    graph = compile_map(report)
    after = {end for _, end, kind in graph.edges(data="relation") if kind == "continues-after"}
    assert after == {name for name, resumes in graph.nodes(data="resumes") if resumes}
    assert nx.is_directed_acyclic_graph(graph)


# GraphML.


def read_back(report: Report) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.read_graphml(io.BytesIO(graphml.render(report).encode()))
    return graph


@pytest.mark.parametrize("report", [empty_report(), rich_report(), hostile_report()], ids=["empty", "rich", "hostile"])
def test_graphml_is_read_back(report: Report) -> None:
    graph = compile_map(report)
    found = read_back(report)
    assert (len(found), found.number_of_edges()) == (len(graph), graph.number_of_edges())
    for _, attributes in found.nodes(data=True):
        assert all(isinstance(value, str | int | float) for value in attributes.values())


@given(st.text())
def test_any_text_makes_valid_graphml(text: str) -> None:
    item = frame("0/0", 10, text)
    assert len(read_back(report_of([item, frame(f"1/{text}", 20)]))) == 2


# The drawing.

edges = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=40)


@given(edges)
def test_every_node_has_a_row_below_the_one_that_it_hangs_on(found: list[tuple[int, int]]) -> None:
    nodes = list(range(15))
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from([pair for pair in found if pair[0] != pair[1]], relation="calls")
    rows = tree(nodes, graph)
    row_of = {row.name: at for at, row in enumerate(rows)}
    assert sorted(row_of) == nodes
    for row in rows:
        if row.parent is None:
            assert row.depth == 0
            continue
        assert graph.has_edge(row.parent, row.name)
        assert row.depth == rows[row_of[row.parent]].depth + 1
        between = rows[row_of[row.parent] + 1 : row_of[row.name]]
        assert all(each.depth >= row.depth for each in between), "a line would pass through a label"


def test_what_goes_on_after_a_break_stands_below_what_was_called_before() -> None:
    found = [
        frame("0/0", 10, "Net.forward", status="broken"),
        frame("1/0", 12, resumes=True),
        frame("2/0", 40, "Block.forward", (11, "forward"), status="broken"),
    ]
    shown = view(report_of(found, [broke("b1", 41, ["2/0"])]))
    assert [(node.anchor, node.x) for node in shown.nodes] == [
        ("compile-0-0", shown.nodes[0].x), ("compile-2-0", shown.nodes[1].x), ("b1", shown.nodes[2].x),
        ("compile-1-0", shown.nodes[0].x),
    ]  # fmt: skip
    assert shown.nodes[0].x < shown.nodes[1].x < shown.nodes[2].x


def test_a_part_of_a_function_has_the_name_of_its_class() -> None:
    report = report_of([frame("0/0", 10, "Net.forward", status="broken"), frame("1/0", 12, resumes=True)])
    report.sources = [SourceFile(MODEL, "user", [SourceFunction("Net.forward", 10, 20, "broken")])]
    assert [node.name for node in view(report).nodes] == ["Net.forward", "Net.forward"]


def view(report: Report) -> MapView:
    return MapView(report, Index(report, Anchors()))


def test_a_break_is_drawn_at_the_function_that_holds_it() -> None:
    found = [frame("0/0", 10, "Net.forward", status="broken"), frame("1/0", 40, "forward", (14, "forward"), "eager")]
    shown = view(report_of(found, [broke("b1", 41, ["0/0", "1/0"], (14,))]))
    assert [edge.relation for edge in shown.edges] == ["calls", "broke-at"]
    assert [link.text for _, _, steps in shown.frames.items for _, link in steps] == ["1/0", "b1"]


def test_nothing_lies_outside_of_the_drawing_and_no_line_reaches_a_label() -> None:
    found = [frame(f"{n}/0", 10 * n, f"function_{n}", ops=n) for n in range(30)]
    shown = view(report_of(found, [broke(f"b{n}", n, [f"{n}/0"]) for n in range(30)]))
    assert len(shown.nodes) == 60
    assert len({node.y for node in shown.nodes}) == 60
    for node in shown.nodes:
        assert RADIUS < node.x < node.label_x < node.end <= shown.width
        assert RADIUS < node.y < shown.height - RADIUS


def test_a_function_that_calls_itself_is_one_node() -> None:
    shown = view(report_of([frame("0/0", 10, "fold"), frame("0/1", 10, "fold", (12, "fold"))]))
    assert (len(shown.nodes), shown.edges) == (1, [])


def test_functions_that_call_each_other_are_drawn() -> None:
    found = [frame("0/0", 10, "f"), frame("1/0", 20, "g", (12, "f")), frame("0/1", 10, "f", (22, "g"))]
    shown = view(report_of(found))
    assert [edge.relation for edge in shown.edges] == ["calls"]
    assert [[link.text for _, link in steps] for _, _, steps in shown.frames.items] == [["1/0"], ["0/0"]]
