"""Reading what a run wrote, however it ended."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.capture.events import CompileStarted, Frame, TorchLoaded
from dynalyze.events.log import RunLog
from dynalyze.events.reading import read_run

STARTED = {"event": "process", "at": 1.0, "pid": 4711, "main": True, "command": ["model.py"], "python": "3.11.7"}
COMPILE = {"event": "compile_start", "at": 2.0, "id": "0/0", "code": {"file": "/m.py", "line": 3, "name": "f"}}


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"


def read(tmp_path: Path, *files: bytes) -> RunLog:
    folder = tmp_path / "events"
    folder.mkdir()
    for number, data in enumerate(files):
        (folder / f"{number}.jsonl").write_bytes(data)
    return read_run(tmp_path)


def test_a_whole_file(tmp_path: Path) -> None:
    run = read(tmp_path, line(STARTED) + line({"event": "torch", "version": "2.13.0"}) + line(COMPILE))
    (log,) = run.processes
    assert (log.process, log.started.pid, log.started.command) == (0, 4711, ["model.py"])
    assert log.events == [TorchLoaded(version="2.13.0"), CompileStarted(at=2.0, id="0/0", code=Frame("/m.py", 3, "f"))]
    assert (run.count, run.unreadable) == (2, 0)
    assert [process for process, _ in run.all()] == [0, 0]


def test_a_line_that_a_crash_cut_short_is_counted_and_the_rest_kept(tmp_path: Path) -> None:
    run = read(tmp_path, line(STARTED) + line(COMPILE) + line(COMPILE)[:40])
    assert (run.count, run.unreadable) == (1, 1)


def test_garbage_between_events_is_counted(tmp_path: Path) -> None:
    garbage = b"\x00\xff\xfe\n" + b"[1, 2\n" + b"\n" + b'"text"\n' + b"{}\n"
    run = read(tmp_path, line(STARTED) + garbage + line(COMPILE))
    assert (run.count, run.unreadable) == (1, 5)


def test_an_event_of_a_newer_child_is_passed_over_in_silence(tmp_path: Path) -> None:
    newer = {"event": "kernel_fused", "at": 3.0, "name": "k"}
    run = read(tmp_path, line(STARTED) + line(newer) + line({**COMPILE, "weather": "sunny"}))
    assert (run.count, run.unreadable) == (1, 0)


def test_a_field_that_makes_no_sense_takes_no_event_with_it(tmp_path: Path) -> None:
    ended = {"event": "compile_end", "id": "0/0", "metrics": {"duration_us": "soon", "graph_op_count": 3}}
    run = read(tmp_path, line(STARTED) + line({**COMPILE, "rank": True}) + line(ended))
    started, end = run.processes[0].events
    assert (started.rank, end.metrics, run.unreadable) == (None, {"graph_op_count": 3}, 2)


def test_a_file_without_its_process_line_is_no_process(tmp_path: Path) -> None:
    run = read(tmp_path, line(COMPILE), line(STARTED) + line(COMPILE))
    assert [log.started.pid for log in run.processes] == [4711]
    assert run.count == 1


def test_the_main_process_is_the_first_whatever_its_file_is_called(tmp_path: Path) -> None:
    workers = [{**STARTED, "main": False, "pid": pid, "at": at} for pid, at in ((30, 9.0), (20, 0.5))]
    run = read(tmp_path, line(workers[0]), line(workers[1]) + line(COMPILE), line(STARTED))
    assert [(log.process, log.started.pid) for log in run.processes] == [(0, 4711), (1, 20), (2, 30)]
    assert [process for process, _ in run.all()] == [1]


def test_one_pid_used_by_two_processes_in_turn(tmp_path: Path) -> None:
    run = read(tmp_path, line(STARTED), line({**STARTED, "main": False, "at": 5.0}))
    assert [log.process for log in run.processes] == [0, 1]


def test_other_files_and_no_folder_at_all(tmp_path: Path) -> None:
    assert read_run(tmp_path / "nothing") == RunLog()
    run = read(tmp_path, line(STARTED))
    (tmp_path / "events" / "notes.txt").write_text("not ours")
    assert len(read_run(tmp_path).processes) == len(run.processes) == 1


@pytest.mark.parametrize("number", [2**63, -(2**70), 1e400])
def test_numbers_beyond_reason(tmp_path: Path, number: float) -> None:
    run = read(tmp_path, line(STARTED) + line({**COMPILE, "attempt": number}) + line(COMPILE))
    assert run.unreadable == 1
    assert {event.attempt for event in run.processes[0].events} == {0}


@settings(max_examples=25)
@given(st.binary(max_size=300), st.sampled_from([b"", line(STARTED), line(STARTED) + line(COMPILE)]))
def test_no_bytes_are_too_strange(data: bytes, before: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = read(Path(folder), before + data)
        whole = before.count(b"\n")
        assert len(run.processes) >= (whole > 0)
        assert run.count >= whole - 1


@settings(max_examples=25)
@given(
    st.dictionaries(st.text(max_size=12), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
)
def test_an_unknown_event_is_never_unreadable(fields: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = read(Path(folder), line(STARTED) + line({**fields, "event": "of the future"}) + line(COMPILE))
        assert (run.count, run.unreadable) == (1, 0)
