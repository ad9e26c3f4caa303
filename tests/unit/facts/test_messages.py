"""torch's wording of graph breaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.facts.breaks import Message, effect_in, frames_in, message_in, parse_message
from recordings import recorded
from records import BRANCH, LOOP, PARTLY, PRINT, SKIPPED, SPLIT, THEN, frame, payload

STACK = [frame(90, "<module>"), frame(12, "forward"), frame(7, "helper")]


def test_every_part_of_a_message_is_found() -> None:
    assert parse_message(PRINT) == Message(
        gb_type="Failed to trace builtin operator",
        explanation=(
            "Dynamo does not know how to trace builtin operator `print` with argument types ['str'] (has_kwargs False)"
        ),
        hints=("Avoid calling builtin `print` with argument types ['str'].", "Please report an issue to PyTorch."),
        context="builtin print [<class 'ConstantVariable'>] False",
        url="https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html",
    )


def test_of_a_chain_the_root_cause_speaks_and_the_last_break_is_its_consequence() -> None:
    found = parse_message(PRINT + THEN + BRANCH + THEN + LOOP)
    assert found.gb_type == "Failed to trace builtin operator"
    assert found.consequence == "graph break in loop"
    assert found.url.endswith("gb0059.html")
    assert found.hints == parse_message(PRINT).hints
    assert "loop" not in found.explanation + found.context


def test_an_explanation_of_several_lines_keeps_its_lines_without_their_indentation() -> None:
    found = parse_message(
        "Data-dependent branching\n  Explanation: Detected a branch.\n\n      The condition is computed as follows:\n"
        "        gt = gt(sum_1, 0)\n    \n  Hint: Use `torch.cond`.\n\n  Developer debug context: \n"
    )
    assert found.explanation == "Detected a branch.\n\nThe condition is computed as follows:\ngt = gt(sum_1, 0)"
    assert found.hints == ("Use `torch.cond`.",)
    assert found.context == ""


def test_the_higher_order_operator_that_torch_puts_below_the_type_is_no_part_of_it() -> None:
    inside = PRINT.replace("operator\n", "operator\n  Higher Order Operator: cond\n", 1)
    found = parse_message(message_in(payload(inside, STACK)))
    assert (found.gb_type, found.explanation) == (parse_message(PRINT).gb_type, parse_message(PRINT).explanation)


@pytest.mark.parametrize(
    "preface",
    [
        "This higher order operator doesn't work unless it is captured completely with torch.compile. Got graph "
        "break/error:\n\n",
        "Cond doesn't work unless it is captured completely with torch.compile. Got ",  # Torch 2.8.
    ],
)
def test_what_a_higher_order_operator_puts_before_the_cause_is_no_part_of_it(preface: str) -> None:
    assert parse_message(preface + PRINT) == parse_message(PRINT)
    assert parse_message(f"{preface}{PRINT}{THEN}{LOOP}") == parse_message(f"{PRINT}{THEN}{LOOP}")


def test_a_skip_that_torch_logs_late_keeps_its_cause() -> None:
    """Between "Graph break:" and the message stands torch's own traceback."""
    text = (
        "Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.\n"
        "torch.compile will skip tracing the frame f (net.py line 3) and fall back to eager.\n"
        "The graph break occurred in the following user code:\n"
        '  File "/home/ada/net.py", line 5, in f\n    print(x)\n\n'
        'Traceback (most recent call last):\n  File "/t/torch/_dynamo/x.py", line 1, in step\n    raise\n'
        f"torch._dynamo.exc.Unsupported: {PRINT}\n"
    )
    assert effect_in(text) == "eager"
    assert parse_message(message_in(text)) == parse_message(PRINT)


@pytest.mark.parametrize("reason", ["", SPLIT, SKIPPED, PARTLY])
@pytest.mark.parametrize("message", [PRINT, BRANCH, PRINT + THEN + LOOP])
def test_the_message_inside_a_payload_is_the_exceptions_own(reason: str, message: str) -> None:
    assert parse_message(message_in(payload(message, STACK, reason))) == parse_message(message)


def test_the_header_tells_the_place_where_there_is_no_traceback() -> None:
    text = f"Graph break in user code at /home/ada/net.py:31\nGraph Break Reason: {PRINT}"
    assert frames_in(text) == [("/home/ada/net.py", 31, "")]
    assert frames_in("nothing of the kind") == []


@pytest.mark.parametrize(
    ("reason", "effect"),
    [
        (SPLIT, "split"),
        (SKIPPED, "eager"),
        (PARTLY, "partly_eager"),
        ("torch.compile cannot properly resume from this graph break, which results in a skip.\n\n", "eager"),
        ("", None),
    ],
)
def test_what_torch_did_about_a_break(reason: str, effect: str | None) -> None:
    assert effect_in(payload(PRINT, STACK, reason)) == effect


def test_real_payloads_say_the_same_as_the_live_exception() -> None:
    names = ("nested_helpers", "break_in_loop", "break_in_context_manager", "one_helper_two_callers", "break_in_try")
    events = [e for name in names for e in recorded(name) if e["event"] == "break"]
    assert len(events) == 10
    for event in events:
        assert parse_message(message_in(event["text"])) == parse_message(event["message"])
        assert parse_message(event["message"]).gb_type.startswith(
            ("Failed to trace builtin", "Unsupported Tensor.item()")
        )


TORCH_WORDS = st.sampled_from(
    [
        "Explanation:", "Hint:", "Developer debug context:", "*** While handling this graph break, another graph break "
        "occurred: ***", "Graph Break Reason: ", "from user code:", "User code traceback:", 'File "a.py", line 3, in f',
        "Graph break in user code at a.py:3", " For more details about this graph break, please visit: x", "\n", "\n\n",
        "\r", "\x00", "\u2028",
    ]
)  # fmt: skip
HOSTILE = st.lists(st.one_of(st.text(), TORCH_WORDS), max_size=12).map("".join)


@given(HOSTILE)
def test_no_text_is_too_strange(text: str) -> None:
    parse_message(message_in(text))
    assert all(line >= 0 for _, line, _ in frames_in(text))
    assert effect_in(text) in ("split", "partly_eager", "eager", None)
