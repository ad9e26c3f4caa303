"""The line that most operations of a graph come from, and the Python loop that was unrolled."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalyze.facts.graph_text import GraphText, Node
from dynalyze.facts.sources import Sources
from dynalyze.facts.unrolled import top_line
from dynalyze.render.words.report import compile_time
from dynalyze.report import Graph, Location
from dynalyze.report.graphs import TopLine
from records import write_source
from sample_reports import clean_report, empty_report, found_by

PROGRAM = """class Net:
    def step(self, x, h):
        return x * 2 + h.tanh()

    def forward(self, xs):
        h = xs[0]
        for x in xs:
            h = self.step(x.relu(), h)
        return h

    def inline(self, xs):
        while xs:
            h = xs.pop() * 3
        return h

    def deep(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


def graph(*lines: tuple[str, int, str, int]) -> GraphText:
    """Operations by file, line and function, each so many times."""
    found = GraphText()
    for file, line, function, times in lines:
        for number in range(times):
            for op in ("mul", "add"):
                name = f"{op}_{line}_{number}"
                found.nodes.append(Node(name, op))
                found.origins[name] = Location(file, line, function=function)
    return found


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([(3, "step", 60), (8, "forward", 59), (6, "forward", 1)], (3, 120, 7, 238, "self.step")),
        ([(13, "inline", 20), (14, "inline", 1)], (13, 40, 12, 40, "")),
        ([(3, "step", 4), (6, "forward", 1)], (3, 8, None, 0, "")),  # Too few rounds to be a loop.
        ([(3, "other", 60)], (3, 120, None, 0, "")),  # No loop calls it.
        ([(18, "deep", 30)], (18, 60, None, 0, "")),  # Each round is another layer.
    ],
)
def test_the_loop_that_holds_or_calls_the_line(
    tmp_path: Path, lines: list[tuple[int, str, int]], expected: tuple[int, int, int | None, int, str]
) -> None:
    file = write_source(tmp_path, PROGRAM)
    found = top_line(graph(*((file, line, name, times) for line, name, times in lines)), Sources())
    assert found is not None
    loop = found.loop.line if found.loop is not None else None
    assert (found.location.line, found.ops, loop, found.rounds_ops, found.step) == expected


def test_a_graph_of_no_known_line_has_none_and_without_source_no_loop_is_known() -> None:
    assert top_line(GraphText(nodes=[Node("add", "add")]), Sources()) is None
    found = top_line(graph(("/gone.py", 3, "step", 60)), Sources(readable=False))
    assert found is not None and found.loop is None


@pytest.mark.parametrize(("rounds", "told"), [(420, True), (150, False), (100, False)])
def test_a_loop_is_told_where_most_of_many_operations_are_its_rounds(rounds: int, told: bool) -> None:
    report = clean_report()
    top = TopLine(Location("/net.py", 13), rounds, Location("/net.py", 18), rounds, "self.step")
    report.graphs = [Graph("g1", "0/0", ops=482, top_line=top)]
    found = found_by(report, "unrolled-loop")
    assert [(each.location, each.evidence) for each in found] == [(top.loop, ["g1", "0/0"])] * told
    assert all("self.step = torch.compile(self.step)" in each.advice and each.impact for each in found)
    words = compile_time(report)
    assert "482" in words and "net.py:13" in words and f"{rounds}" in words
    assert compile_time(empty_report()) == ""
