"""Logs of torch, whole and damaged, as events."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.capture.events import (
    BreakSeen,
    CacheLooked,
    CompileEnded,
    CompileStarted,
    Frame,
    GraphSeen,
    RecompileSeen,
)
from dynalyze.events import torch_trace
from dynalyze.events.torch_trace import TraceLog, is_trace, read_text, read_trace

ID = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}


def record(metadata: dict[str, Any], text: str | None = None, *, pid: int = 4711, second: int = 0) -> bytes:
    """A record as torch's formatter writes it."""
    line = f"V1121 04:39:{second:02}.535000 {pid} torch/_dynamo/utils.py:2350] {json.dumps(metadata)}"
    return (line + "".join(f"\n\t{each}" for each in (text or "").split("\n") if text is not None) + "\n").encode()


def name(file: str, number: int, **fields: Any) -> bytes:
    return record({"str": [file, number]}, **fields)


def start(line: int = 3, *, pid: int = 4711, second: int = 0, **fields: Any) -> bytes:
    stack = [{"line": 9, "name": "<module>", "filename": 0, "loc": "f(x)"}, {"line": line, "name": "f", "filename": 0}]
    return record({"dynamo_start": {"stack": stack}, **ID, **fields}, pid=pid, second=second)


def end(**fields: Any) -> bytes:
    return record({"compilation_metrics": {"co_name": "f", "has_guarded_code": True}, **ID, **fields})


def artifact(kind: str, text: str, **fields: Any) -> bytes:
    return record({"artifact": {"name": kind, "encoding": "string"}, **ID, **fields}, text)


def viewer() -> bytes:
    return record({"chromium_event": {}, **ID}, '{\n"name": "dynamo"\n}')


WHOLE = name("/job/m.py", 0) + start() + viewer() + end()


def read(tmp_path: Path, *data: bytes, file: str = "dedicated_log_torch_trace_x.log") -> TraceLog:
    path = tmp_path / file
    path.write_bytes(b"".join(data))
    return read_trace(path)


def kinds(log: TraceLog) -> list[str]:
    return [type(event).__name__ for process in log.processes for event in process.events]


def test_a_whole_log(tmp_path: Path) -> None:
    log = read(tmp_path, WHOLE)
    (process,) = log.processes
    started, ended = process.events
    assert isinstance(started, CompileStarted)
    assert (started.id, started.code, started.stack) == (
        "0/0", Frame("/job/m.py", 3, "f"), [Frame("/job/m.py", 9, "<module>")],
    )  # fmt: skip
    assert isinstance(ended, CompileEnded)
    assert ended.metrics == {"co_name": "f", "has_guarded_code": True}
    assert (process.started.pid, process.started.rank) == (4711, None)
    assert (log.records, log.unreadable) == (4, 0)


def test_source_lines_that_the_log_quotes_are_kept(tmp_path: Path) -> None:
    graph = "class GraphModule:\n     # File: /job/m.py:4 in f, code: y = x + 1\n     y = x + 1"
    reason = (
        'Graph break in user code at /job/m.py:5\nUser code traceback:\n  File "/job/m.py", line 5, in f\n    g(y)\n'
    )
    log = read(
        tmp_path, name("/job/m.py", 0), start(), record({"dynamo_output_graph": {}, **ID}, graph),
        artifact("dynamo_graph_break_reason", reason),
    )  # fmt: skip
    assert log.quoted == {("/job/m.py", 9): "f(x)", ("/job/m.py", 4): "y = x + 1", ("/job/m.py", 5): "g(y)"}


def test_texts_of_graphs_can_be_read_later(tmp_path: Path) -> None:
    code = "def forward(self):\n\tü = 1\n\n    return ()"
    graph = record({"dynamo_output_graph": {}, **ID}, code)
    log = read(tmp_path, WHOLE, graph, viewer(), graph)
    texts = [read_text(log.path, event.text) for event in log.processes[0].events if isinstance(event, GraphSeen)]
    assert texts == [code, code]


@pytest.mark.parametrize("cut", [1, 30, 120, len(WHOLE) - 2])
def test_a_log_cut_short_keeps_what_is_whole(tmp_path: Path, cut: int) -> None:
    log = read(tmp_path, WHOLE[:-cut])
    assert kinds(log)[:1] == (["CompileStarted"] if cut < 200 else [])
    assert log.unreadable <= 1


def test_lines_of_others_are_counted_and_interrupt_no_text(tmp_path: Path) -> None:
    whole = artifact("recompile_reasons", "first\nsecond")
    head, first, second = whole.splitlines(keepends=True)
    log = read(tmp_path, b"Loading weights: 100%\n\n", head, first, b"WARNING \xff\xfe of another\n", second, end())
    (recompile, _) = log.processes[0].events
    assert isinstance(recompile, RecompileSeen)
    assert recompile.text.startswith("first")
    assert recompile.text.endswith("second")
    assert log.unreadable == 2


def test_records_of_other_versions(tmp_path: Path) -> None:
    newer = record({"frame_id": 0, "frame_compile_id": 0, "recompile_story": {"a": 1}}, "text")
    context_first = record({**ID, "compilation_metrics": {"co_name": "f"}})
    older = b'V0401 10:00:00.123000 140234 torch/_dynamo/x.py:1] {"dynamo_start": {}, "frame_id": 0}\n'
    log = read(tmp_path, newer, context_first, older, record({"of_the_future": [1]}, "long\ntext"))
    assert log.unreadable == 0
    assert kinds(log) == ["CompileEnded", "CompileStarted"]


def test_processes_in_one_log_are_told_by_their_ids(tmp_path: Path) -> None:
    log = read(tmp_path, name("/job/m.py", 0), start(), start(pid=5), end(), start(pid=6))
    assert [process.started.pid for process in log.processes] == [4711, 5, 6]
    forked = log.processes[1].events[0]
    assert isinstance(forked, CompileStarted)
    assert forked.code == Frame("/job/m.py", 3, "f")  # By the table of file names of the process it was forked from.


def test_ranks_in_one_log_are_told_apart_though_their_process_ids_are_equal(tmp_path: Path) -> None:
    one = name("/job/m.py", 0, pid=1) + start(pid=1, rank=0)
    two = name("/job/n.py", 0, pid=1) + start(pid=1, rank=1)
    log = read(tmp_path, one, two, start(pid=1, rank=0, frame_id=1))
    assert [(process.started.pid, process.started.rank) for process in log.processes] == [(1, 0), (1, 1)]
    ids = [[e.id for e in p.events if isinstance(e, CompileStarted)] for p in log.processes]
    assert ids == [["0/0", "1/0"], ["0/0"]]
    second = log.processes[1].events[0]
    assert isinstance(second, CompileStarted)
    assert second.code == Frame("/job/n.py", 3, "f")


@pytest.mark.parametrize(
    ("file", "rank"),
    [
        ("dedicated_log_torch_trace_rank_3_ab12.log", 3),
        ("dedicated_log_torch_trace_ab12.log", None),
        ("rank_12_x.log", 12),
    ],
)
def test_the_rank_in_a_files_name(tmp_path: Path, file: str, rank: int | None) -> None:
    assert read(tmp_path, WHOLE, file=file).processes[0].started.rank == rank


def test_compile_ids_that_begin_again_open_an_epoch(tmp_path: Path) -> None:
    events = read(tmp_path, WHOLE, WHOLE).processes[0].events
    assert [event.epoch for event in events if isinstance(event, CompileStarted)] == [0, 1]


GUARDS = record({"dynamo_cpp_guards_str": {}, **ID}, "guards")


@pytest.mark.parametrize(
    ("records", "metrics"),
    [
        (GUARDS, {"has_guarded_code": True}),
        (record({"dynamo_output_graph": {}, **ID}, "graph"), {"has_guarded_code": True}),
        (
            artifact("dynamo_graph_break_reason", "Graph break in user code at a.py:1"),
            {"has_guarded_code": False, "fail_type": "Unsupported"},
        ),
        (
            artifact("dynamo_error", "Traceback:\n  x\ntorch._dynamo.exc.InternalTorchDynamoError: bad\n"),
            {"has_guarded_code": False, "fail_type": "InternalTorchDynamoError"},
        ),
        (b"", {"has_guarded_code": False}),
    ],
)
def test_compiles_without_metrics_end_as_other_records_tell(
    tmp_path: Path, records: bytes, metrics: dict[str, Any]
) -> None:
    log = read(tmp_path, start(), records, start(frame_id=1))
    (made_up,) = [event for event in log.processes[0].events if isinstance(event, CompileEnded)]
    assert (made_up.id, made_up.metrics) == ("0/0", metrics)
    assert log.unmeasured == 1


def test_the_last_compile_of_a_log_may_never_have_ended(tmp_path: Path) -> None:
    assert kinds(read(tmp_path, start())) == ["CompileStarted"]
    assert kinds(read(tmp_path, start(), GUARDS)) == ["CompileStarted", "CompileEnded"]


def test_a_line_longer_than_memory_should_hold(tmp_path: Path) -> None:
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    long = 100_000_000
    head = b'V1121 04:39:01.535000 1 a.py:1] {"compilation_metrics": {"x": "'
    with path.open("wb") as file:
        for before in (artifact("recompile_reasons", "short").rstrip(b"\n"), head):
            file.write(before)
            file.writelines(b"x" * 1_000_000 for _ in range(long // 1_000_000))
            file.write(b"\n")
        file.write(WHOLE)
    tracemalloc.start()
    try:
        log = read_trace(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert kinds(log) == ["RecompileSeen", "CompileStarted", "CompileEnded"]
    assert log.unreadable == 1


def test_equal_texts_are_kept_once_and_no_more_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_trace, "MOST_TEXT", 10_000)
    reasons = [artifact("dynamo_graph_break_reason", letter * 8000) for letter in "aabc"]
    texts = [event.text for event in read(tmp_path, *reasons).processes[0].events if isinstance(event, BreakSeen)]
    assert texts[0] is texts[1]
    assert [len(text) for text in texts] == [8000, 8000, 2000, 2000]


@pytest.mark.parametrize(
    ("data", "found"),
    [(WHOLE, True), (b"\tcut\n" + WHOLE, True), (b"", False), (b"{}", False), (b"\x89PNG\r\n\xff\n", False)],
)
def test_what_looks_like_a_log(data: bytes, found: bool) -> None:
    assert is_trace(data) == found


SCALARS = st.none() | st.integers() | st.text(max_size=5)
NAMES = ["dynamo_start", "compilation_metrics", "artifact", "str", "frame_id", "rank", "attempt", "stack"]
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["name", "stack"]), inner)
)


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.text(max_size=20))
def test_no_record_is_too_strange(metadata: dict[str, Any], text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = read(Path(folder), record(metadata, text), WHOLE)
        assert "CompileEnded" in kinds(log)


def key(state: str, *components: str, **fields: Any) -> bytes:
    """What torch logs of a cache that was asked for a graph."""
    content = {"key": "fkey", "cache_state": state, "components": components}
    return artifact(f"fx_graph_cache_{state}", json.dumps(content, indent=2), **fields)


def test_cache_keys_are_taken_apart_and_settings_kept_once(tmp_path: Path) -> None:
    lines = ["[aa] gm: return x * 2", "[bb] inductor_config[max_autotune]: False"]
    log = read(tmp_path, WHOLE, key("miss", *lines), key("hit", *lines, frame_compile_id=1))
    one, other = (event for event in log.processes[0].events if isinstance(event, CacheLooked))
    assert (one.cache, one.state, one.digest, one.id) == ("fx_graph", "miss", "fkey", "0/0")
    assert (other.state, other.id) == ("hit", "0/1")
    assert one.components == other.components == [("gm", "aa", "return x * 2")]
    assert one.settings == other.settings == ["0"]
    assert [json.loads(text) for text in log.settings] == [{"inductor_config": {"max_autotune": "False"}}]


def test_keys_beyond_the_room_for_texts_keep_their_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_trace, "MOST_TEXT", 100)
    monkeypatch.setattr(torch_trace, "_MOST_SETTINGS", 1)
    lines = [f"[{'a' * 16}] gm: {'x' * 80}"]
    settings = [f"[bb] inductor_config[threads]: {number}" for number in range(2)]
    log = read(tmp_path, WHOLE, *(key("miss", *lines, setting) for setting in settings))
    found = [event for event in log.processes[0].events if isinstance(event, CacheLooked)]
    assert [bool(event.components) for event in found] == [True, False]
    assert [event.digest for event in found] == ["fkey"] * 2 and len(log.settings) == 1
