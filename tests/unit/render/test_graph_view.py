"""The section "Graphs and kernels" of the page, as data."""

from __future__ import annotations

import pytest

from dynalyze.break_cost.records import CallPart, Prices
from dynalyze.render.html import render
from dynalyze.render.view import graphs as module
from dynalyze.render.view.graphs import GraphsView
from dynalyze.render.view.links import Anchors, Index
from dynalyze.render.view.page import Page
from dynalyze.report import Graph, Kernel
from dynalyze.report.measurements import Measurement
from sample_reports import clean_report, compilation, empty_report


def test_each_stage_has_its_operations_of_both_directions() -> None:
    page = Page(clean_report())
    graph = page.graphs.shown.items[0]
    assert (graph.fact.ops, graph.aten, graph.after, graph.calls) == (42, "60 + 75", "31", "3 + 1")
    assert graph.place and graph.place.text.rpartition("/")[2] == "model.py:40"
    assert page.links.compilation(0, 0, graph.fact.compile_id).anchor == "compile-0-0"


def test_a_graph_has_its_compile_time_and_what_it_takes_of_a_call() -> None:
    report = clean_report()
    key, other = ("0/0", "1/0")
    report.graphs = [Graph("g1", key), Graph("g2", other, process=1)]
    report.compilations = [compilation(key, seconds=2.5)]
    parts = [CallPart("graph", 1.5, compile_id=key), CallPart("break", 9.0, compile_id=key)]
    parts.append(CallPart("backward", 0.5, compile_id=key))
    report.measurements = [
        Measurement("default", prices=Prices(parts=[*parts, CallPart("graph", 3.0, None, "", other)]))
    ]
    graphs = GraphsView(report, Index(report, Anchors()), Anchors())
    assert (graphs.compiling, graphs.per_call) == ({"g1": 2.5, "g2": None}, {"g1": 2.0})


def test_inputs_sizes_and_symbols() -> None:
    graph = Page(clean_report()).graphs.shown.items[0]
    assert [(item.source or item.name, module.input_shape(item), item.bytes) for item in graph.inputs.items] == [
        ("x", "[s77, 8]", None),
        ("self.w", "[8, 8]", 128),
    ]
    assert graph.size == ""  # One of them has no fixed size.


def test_kernels_stand_with_their_graph() -> None:
    first, second = Page(clean_report()).graphs.shown.items
    assert [(kernel.fact.name, kernel.fact.kind, kernel.fact.calls) for kernel in first.kernels.items] == [
        ("addmm", "extern", 2),
        ("cpp_fused_add_relu_0", "cpp", 1),
        ("mm", "extern", 1),
    ]
    assert second.kernels.items == []


def test_the_page_says_how_to_learn_the_lines_it_lacks() -> None:
    report = clean_report()
    assert "do not tell which lines" not in render(report)
    for kernel in report.kernels:
        kernel.provenance = "comments"
    report.kernels[1].places = []
    assert "1 of 3 kernels do not tell which lines they came from." in render(report)


def test_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GRAPHS", 2)
    report = empty_report()
    report.graphs = [Graph("g1", "0/0", histogram={f"op{n}": 1 for n in range(40)}), *clean_report().graphs]
    report.kernels = [Kernel("g1", f"k{number}", "cpp") for number in range(70)]
    view = Page(report).graphs.shown
    assert (len(view.items), view.total) == (2, 3)
    assert (view.items[0].ops.omitted, view.items[0].kernels.omitted) == (10, 10)


def test_the_page_says_where_the_rest_of_the_code_is() -> None:
    report = clean_report()
    report.graphs[0].code[0].lines_omitted = 7
    report.graphs[0].code_omitted = ["output_code.py"]
    page = render(report)
    assert "7 lines omitted: <code>--artifacts DIR</code> writes them all." in page
    assert "1 of its texts omitted: <code>--artifacts DIR</code> writes them all." in page
    assert "def forward(self, L_x_):\n    return (L_x_,)" in page
