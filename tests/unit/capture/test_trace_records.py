"""Records of torch's structured trace as events."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.capture.events import CompileEnded, CompileStarted, Frame, Metrics
from dynalyze.capture.trace_records import TraceRecords, compile_id_of

ID = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}


def start(stack: list[dict[str, Any]], **ids: Any) -> dict[str, Any]:
    return {"dynamo_start": {"stack": stack}, **ID, **ids}


def test_interned_file_names_are_resolved() -> None:
    records = TraceRecords()
    assert records.read({"str": ["/home/ada/model.py", 3]}, None) is None
    stack = [{"line": 90, "name": "<module>", "filename": 3}, {"line": 10, "name": "forward", "filename": 3}]
    code, stack_of_code = Frame("/home/ada/model.py", 10, "forward"), [Frame("/home/ada/model.py", 90, "<module>")]
    assert records.read(start(stack), None) == CompileStarted(id="0/0", code=code, stack=stack_of_code)


def test_ids_that_begin_again_open_an_epoch() -> None:
    records = TraceRecords()
    started = [records.read(start([], frame_compile_id=version), None) for version in (0, 1, 0, 1)]
    assert [event and (event.id, event.epoch) for event in started] == [("0/0", 0), ("0/1", 0), ("0/0", 1), ("0/1", 1)]
    records.restart()
    again = records.read(start([]), None)
    assert again is not None
    assert again.epoch == 0


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        (ID, "0/0"),
        ({"frame_id": 3, "frame_compile_id": 2, "attempt": 1}, "3/2"),
        ({"compiled_autograd_id": 2, "frame_id": 0, "frame_compile_id": 1}, "!2/0/1"),
        ({"compiled_autograd_id": 2}, "!2/"),
        ({}, ""),
    ],
)
def test_compile_ids(metadata: dict[str, Any], shown: str) -> None:
    assert compile_id_of(metadata) == shown


@pytest.mark.parametrize(
    ("metadata", "event"),
    [
        ({"artifact": {"name": "dynamo_graph_break_reason", "encoding": "string"}}, "break"),
        ({"artifact": {"name": "recompile_reasons", "encoding": "json"}}, "recompile"),
        ({"dynamo_output_graph": {"sizes": {}}}, "graph"),
        ({"artifact": {"name": "inductor_provenance_tracking_node_mappings", "encoding": "json"}}, "graph"),
        ({"artifact": {"name": "inductor_provenance_tracking_kernel_stack_traces", "encoding": "json"}}, "graph"),
        ({"artifact": {"name": "dynamo_error", "encoding": "string"}}, "error"),
        ({"compilation_metrics": {"co_name": "f"}}, "compile_end"),
        ({"bwd_compilation_metrics": {"co_name": "f"}}, "compile_end"),
        ({"artifact": {"name": "of_the_future"}}, None),
        ({"chromium_event": {}}, None),
        ({}, None),
    ],
)
def test_which_records_are_events(metadata: dict[str, Any], event: str | None) -> None:
    found = TraceRecords().read({**ID, **metadata}, "text")
    assert (found and found.tag) == event


def test_metrics_are_chosen_and_the_backward_is_told_apart() -> None:
    metrics = {"co_name": "f", "graph_op_count": 0, "inductor_config": "x" * 45_000, "guard_count": None}
    records = TraceRecords()
    forward = records.read({"compilation_metrics": metrics, **ID}, None)
    backward = records.read({"bwd_compilation_metrics": metrics, **ID}, None)
    chosen: Metrics = {"co_name": "f", "graph_op_count": 0}
    assert forward == CompileEnded(id="0/0", metrics=chosen)
    assert backward == CompileEnded(id="0/0", backward=True, metrics=chosen)


def test_the_exception_of_a_backend_is_no_break_of_its_own() -> None:
    """torch logs the traceback first, then the graph break that it makes of it."""
    metadata = {"artifact": {"name": "dynamo_graph_break_reason"}, "frame_id": 0, "frame_compile_id": 0}
    warned = (
        "WON'T CONVERT wave net.py line 5 \n==== TorchDynamo Stack Trace ====\nTraceback (most recent call last):\n"
    )
    assert TraceRecords().read(metadata, warned) is None
    assert TraceRecords().read(metadata, "Graph break in user code at net.py:5\n") is not None


SCALARS = st.none() | st.integers() | st.text(max_size=5)
NAMES = ["dynamo_start", "compilation_metrics", "artifact", "str", "frame_id", "rank", "attempt", "stack"]
RECORDS = st.dictionaries(
    st.sampled_from(NAMES), st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)


@settings(max_examples=25)
@given(RECORDS, st.text())
def test_a_strange_record_fails_in_a_way_that_its_readers_expect(metadata: dict[str, Any], text: str) -> None:
    # The listener writes such a failure down as lost; the reader of logs counts it.
    with contextlib.suppress(AttributeError, TypeError, KeyError, IndexError, ValueError):
        TraceRecords().read(metadata, text)
