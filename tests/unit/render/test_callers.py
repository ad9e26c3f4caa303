"""The line of one's own that led to a break in a library's helper."""

from __future__ import annotations

from dynalyze.render.findings import own_caller
from dynalyze.report import GraphBreak, Location
from sample_reports import graph_break

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
