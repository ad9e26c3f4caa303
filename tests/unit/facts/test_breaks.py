"""Graph breaks: PyTorch's messages read, and what becomes one entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.capture.events import BreakSeen
from dynalyze.events.log import RunLog
from dynalyze.facts.breaks import effect_in, frames_in, graph_breaks, message_in, parse_message
from dynalyze.facts.compilations import compilations
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report import GraphBreak
from recordings import as_run, line_with, program, recorded, without_live_fields
from records import (
    BRANCH,
    LOOP,
    MAIN,
    PARTLY,
    PRINT,
    SKIPPED,
    SPLIT,
    THEN,
    TORCH,
    broke,
    end,
    failed,
    frame,
    payload,
    process,
    run_of,
    start,
)


def breaks_of(run: RunLog) -> list[GraphBreak]:
    return graph_breaks(run, Places(TORCH), Sources(), registry())


def one(*events: Any) -> GraphBreak:
    (found,) = breaks_of(run_of(*events))
    return found


def lines(found: GraphBreak) -> list[int]:
    return [place.line for place in found.stack]


# Recorded programs: (code on the line, gb_id, gb_type, effect) of each break, in the order in which they happen.
PRINT_TYPE = "Failed to trace builtin operator"
ITEM_TYPE = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
SKIP_TYPE = "Attempted to call function marked as skipped"
BRANCH_TYPE = "Data-dependent branching"
LIMIT_TYPE = "Dynamo recompile limit exceeded"
CALL_TYPE = "Call to `torch._dynamo.graph_break()`"
RECORDED: dict[str, list[tuple[str, str, str, str]]] = {
    "nested_helpers": [('print("mean of a batch")', "GB0059", PRINT_TYPE, "split")],
    "same_name_forwards": [("time.sleep(0)", "GB0007", SKIP_TYPE, "split")],
    "data_dependent_if": [("if y.sum() > 0:", "GB0170", BRANCH_TYPE, "split")],
    "break_in_loop": [("found += x.sum().item()", "GB0124", ITEM_TYPE, "eager")],
    "break_in_try": [('print("trying")', "GB0059", PRINT_TYPE, "eager")],
    "break_in_context_manager": [
        ('print("under section")', "GB0059", PRINT_TYPE, "eager"),
        ('print("under no_grad")', "GB0059", PRINT_TYPE, "split"),
    ],
    "refused_under_fullgraph": [
        ("time.sleep(0)", "GB0007", SKIP_TYPE, "error"),
        ("if x.sum() > 0:", "GB0170", BRANCH_TYPE, "error"),
        ("torch._dynamo.graph_break()", "GB0025", CALL_TYPE, "error"),
    ],
    "one_helper_two_callers": [("return x / x.std().item()", "GB0124", ITEM_TYPE, "split")],
    "two_breaks_in_a_row": [
        ('print("one")', "GB0059", PRINT_TYPE, "split"),
        ('print("two")', "GB0059", PRINT_TYPE, "split"),
    ],
    "two_epochs": [('print("loud")', "GB0059", PRINT_TYPE, "split")],
    "break_in_cond": [
        ('print("shifted")', "GB0059", PRINT_TYPE, "error"),
        ("if x.max() > 3:", "GB0170", BRANCH_TYPE, "error"),
    ],
    "limit_under_error_on_break": [("def styled(x, style):", "GB0039", LIMIT_TYPE, "error")],
    "backend_raises": [("def wave(x):", "GB0219", "Backend compiler exception", "eager")],
    "raises_itself": [('print("checking")', "GB0059", PRINT_TYPE, "split")],
    "shapes_do_not_fit": [],
    "recompile_kinds": [],
    "recompile_limit": [],
    "training_step": [],
}


def gist(found: list[GraphBreak]) -> list[tuple[str | None, str, str, str, int]]:
    return [(b.gb_id, b.gb_type, b.effect, b.location.file, b.location.line) for b in found]


@pytest.mark.parametrize("how", ["live", "stripped", "text"])
@pytest.mark.parametrize("name", RECORDED)
def test_cause_and_place_of_recorded_breaks(name: str, how: str, tmp_path: Path) -> None:
    """The same must come out with every live reader of the adapter, without its fields, and with it wholly blind."""
    events = recorded(name, "text" if how == "text" else "live")
    found = breaks_of(as_run(without_live_fields(events) if how == "stripped" else events, tmp_path))
    assert gist(found) == [
        (gb_id, gb_type, effect, str(program(name)), line_with(name, code))
        for code, gb_id, gb_type, effect in RECORDED[name]
    ]
    assert [b.location.code for b in found] == [code for code, *_ in RECORDED[name]]


@pytest.mark.parametrize("name", RECORDED)
def test_hints_and_explanations_of_recorded_breaks_need_no_live_path(name: str, tmp_path: Path) -> None:
    live = breaks_of(as_run(recorded(name), tmp_path / "live"))
    for number, events in enumerate((without_live_fields(recorded(name)), recorded(name, "text"))):
        other = breaks_of(as_run(events, tmp_path / str(number)))
        for fact in ("explanation", "hints", "context", "url", "consequence"):
            assert [getattr(b, fact) for b in other] == [getattr(b, fact) for b in live], fact
        assert all(b.explanation and b.hints for b in other)


def test_recorded_stacks_are_whole_and_name_all_callers(tmp_path: Path) -> None:
    """torch's own text merges adjacent frames of one name; the live stack has them all."""
    for name, codes in (
        ("same_name_forwards", ["torch.compile(Outer", "self.middle(x - 3)", "self.inner(x * 2)", "time.sleep"]),
        ("nested_helpers", ["forward(torch.ones", "return scale(x) - 3", "return announce(x * 2)", "print("]),
    ):
        (found,) = breaks_of(as_run(recorded(name), tmp_path / name))
        assert [place.line for place in found.stack] == [line_with(name, code) for code in codes]
        assert (found.occurrences, found.compile_ids) == (3, ["0/0", "1/0", "2/0"])
    (found,) = breaks_of(as_run(recorded("one_helper_two_callers"), tmp_path / "callers"))
    assert [place.code for place in found.callers] == ["y = spread(x + 1)", "y = spread(x - 1)"]
    assert found.expression == "x.std().item()"
    (found,) = breaks_of(as_run(recorded("break_in_loop"), tmp_path / "loop"))
    assert found.consequence == "graph break in loop"


def test_a_generator_is_refused_before_tracing_begins(tmp_path: Path) -> None:
    """No event of torch's tells of it: the adapter's watch on a counter does."""
    (found,) = breaks_of(as_run(recorded("compiled_generator"), tmp_path))
    assert (found.gb_id, found.gb_type, found.effect) == ("GB0003", "Attempt to trace generator", "eager")
    assert found.location.line == line_with("compiled_generator", "def squares")
    assert found.compile_ids == []


def test_two_breaks_on_one_line_are_told_apart_by_their_columns() -> None:
    """`a.item() + b.item()`"""
    found = breaks_of(
        run_of(
            start(),
            broke([frame(12, columns=(8, 16))]),
            broke([frame(12, columns=(19, 27))]),
            broke([frame(12, columns=(8, 16))], id="0/1"),
        )
    )
    assert [(b.id, b.location.column, b.location.end_column, b.occurrences) for b in found] == [
        ("b1", 8, 16, 2),
        ("b2", 19, 27, 1),
    ]


def test_what_is_no_graph_break() -> None:
    limit = "Dynamo recompile limit exceeded\n  Explanation: too often\n  Hint: see the guards\n"
    assert breaks_of(run_of(start(), failed([frame(12)], limit, refused=False), broke([frame(12)], limit))) == []
    assert breaks_of(run_of(BreakSeen(id="0/0", text=""), BreakSeen(id="0/1", text="\x00garbage"))) == []


@pytest.mark.parametrize(
    ("reason", "guarded", "effect"),
    [
        (SPLIT, True, "split"),
        (PARTLY, True, "partly_eager"),
        (SKIPPED, False, "eager"),
        # torch 2.8 has no such words: that no code came of it tells.
        ("", False, "eager"),
        ("", True, "split"),
        ("", None, "split"),
    ],
)
def test_the_effect_of_a_break(reason: str, guarded: bool | None, effect: str) -> None:
    assert one(start(), broke([frame(12)], reason=reason), end(has_guarded_code=guarded)).effect == effect


def test_without_the_live_exception_the_limit_raised_where_the_function_is_offered_again() -> None:
    reason = {"has_guarded_code": False, "fail_type": "Unsupported", "fail_reason": "Dynamo recompile limit exceeded\n"}
    once = [start("0/0"), end("0/0"), start("1/0"), end("1/0"), end("0/2", **reason), end("1/2", **reason)]
    assert breaks_of(run_of(*once)) == []
    assert one(*once, end("0/3", **reason)).compile_ids == ["0/2"]


def test_each_compile_knows_the_breaks_that_it_met() -> None:
    """A refusal that comes again after a reset, or in another process, is the same break of another compile."""
    events = [
        event for epoch in (0, 1) for event in (start(epoch=epoch), failed([frame(12)], refused=True, epoch=epoch))
    ]
    run = RunLog([process(*events), process(*events[:2], start("0/1"), number=1)])
    compiled = compilations(run, Places(TORCH), Sources())
    (found,) = graph_breaks(run, Places(TORCH), Sources(), registry(), compiled)
    assert [(c.process, c.epoch, c.compile_id, c.breaks) for c in compiled] == [
        (0, 0, "0/0", [found.id]), (0, 1, "0/0", [found.id]), (1, 0, "0/0", [found.id]), (1, 0, "0/1", []),
    ]  # fmt: skip


def test_without_live_fields_a_skipped_caller_does_not_blame_the_helper() -> None:
    """The text says that `forward` was skipped; `helper`, which holds the line, was only split."""
    stack = [MAIN, frame(17, "forward"), frame(7, "helper")]
    found = one(
        start("0/0", frame(16, "forward")),
        BreakSeen(id="0/0", text=payload(PRINT, stack, SKIPPED)),
        end("0/0", has_guarded_code=False),
        start("1/0", frame(6, "helper"), stack[:2]),
        BreakSeen(id="1/0", text=payload(PRINT, stack)),
        end("1/0"),
    )
    assert (found.effect, found.occurrences) == ("split", 2)


def test_the_id_comes_from_the_link_or_else_from_the_type() -> None:
    """torch 2.8 puts no link into its messages."""
    told = BreakSeen(id="0/0", text="", type="Data-dependent branching", above=[MAIN], inside=[frame(12)])
    found = one(start(), told)
    assert (found.gb_id, found.gb_type) == ("GB0170", "Data-dependent branching")
    assert found.url == "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html"
    found = one(start(), broke([frame(12)], "Something new under the sun\n  Explanation: new\n  Hint: none\n"))
    assert (found.gb_id, found.gb_type, found.url) == (None, "Something new under the sun", "")
    newer = PRINT.replace("Failed to trace builtin operator", "Worded anew")
    assert one(start(), broke([frame(12)], newer)).gb_id == "GB0059"


def test_epochs_and_processes_fold_into_one_fact_with_the_first_ones_ids() -> None:
    first = process(start(), broke([frame(12)]), end(), start(epoch=1), broke([frame(12)], epoch=1), end(epoch=1))
    second = process(start("3/0"), broke([frame(12)], id="3/0"), end("3/0"), number=1, pid=4712)
    (found,) = breaks_of(RunLog([first, second]))
    assert (found.occurrences, found.process, found.epoch, found.processes) == (3, 0, 0, [0, 1])
    assert found.compile_ids == ["0/0"]


STACK = [frame(90, "<module>"), frame(12, "forward"), frame(7, "helper")]


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
