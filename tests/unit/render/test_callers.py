"""The line of one's own that led to a break in a library's helper."""

from __future__ import annotations

from dynalyze.render import terminal
from dynalyze.render.findings import own_caller
from dynalyze.report import GraphBreak, Location
from dynalyze.rules.rule import judge
from sample_reports import empty_report, graph_break

PACKAGES = "/venv/lib/python3.11/site-packages/"
MINE = Location("/home/ada/net.py", 7, function="forward")
MODEL = Location(PACKAGES + "transformers/models/llama/modeling_llama.py", 12, function="forward")
HELPER = Location(PACKAGES + "transformers/utils/generic.py", 3, function="check")


def led_to(*stack: Location) -> Location | None:
    return own_caller(broken(*stack))


def broken(*stack: Location) -> GraphBreak:
    found = graph_break("b1", "split", stack[-1])
    found.stack = list(stack)
    return found


def test_a_helper_was_called_by_the_innermost_line_of_a_model() -> None:
    assert led_to(MINE, HELPER, MODEL, HELPER) == MODEL
    assert led_to(MINE, HELPER) == MINE


def test_a_line_of_ones_own_needs_none() -> None:
    assert led_to(MINE) is None
    assert led_to(MINE, MODEL) is None


def test_a_library_that_was_compiled_alone_has_none() -> None:
    assert led_to(HELPER) is None


def test_the_terminal_tells_it_below_the_line_of_the_break() -> None:
    report = empty_report()
    report.graph_breaks = [broken(MINE, MODEL, HELPER)]
    report.findings = judge(report)
    lines = [line.strip() for line in terminal.render(report, width=200).splitlines()]
    at = lines.index("transformers/utils/generic.py:3 in check")
    assert lines[at + 1 : at + 3] == ["called from", "transformers/models/llama/modeling_llama.py:12 in forward"]
    report.graph_breaks = [broken(MINE, MODEL)]
    assert "called from" not in terminal.render(report)
