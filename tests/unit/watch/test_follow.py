"""The folder of a job is read while it is written, whatever lies in it."""

from __future__ import annotations

import json
from pathlib import Path

from dynalyze.capture.events import CompileStarted
from dynalyze.watch.follow import Follower, is_job, read_job


def log_of(job: Path, name: str = "7-1.0.jsonl") -> Path:
    (job / "events").mkdir(exist_ok=True)
    (job / "ranks").mkdir(exist_ok=True)
    return job / "events" / name


def line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


def test_a_line_that_is_half_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    log, follower = log_of(tmp_path), Follower(tmp_path)
    text = line(event="compile_start", id="0/0")
    log.write_text(text[:10])
    assert list(follower.events()) == []
    log.write_text(text + text[:5])
    assert [read.event.id for read in follower.events() if isinstance(read.event, CompileStarted)] == ["0/0"]
    assert list(follower.events()) == [] and follower.log.unreadable == 0


def test_lines_of_another_version_are_passed_over_and_damaged_ones_counted(tmp_path: Path) -> None:
    log, follower = log_of(tmp_path), Follower(tmp_path)
    log.write_bytes(
        line(event="of_the_future", x=1).encode() + b"\xff\xfe not json\n" + b'{"event": "compile_start", "id": 3}\n'
        + line(event="compile_start", id="1/0", future=2).encode()
    )  # fmt: skip
    assert [read.event.id for read in follower.events() if isinstance(read.event, CompileStarted)] == ["1/0"]
    assert follower.log.unreadable == 2


def test_a_state_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    log_of(tmp_path)
    (tmp_path / "ranks" / "7-1.json").write_text('{"pid": 7, "steps": ')
    (tmp_path / "ranks" / "8-1.json").write_text('{"pid": 8, "steps": -1}')
    (tmp_path / "ranks" / "9-1.json").write_text('{"pid": 9, "steps": 12, "future": true}')
    assert {name: state.steps for name, state in Follower(tmp_path).states().items()} == {"9-1": 12}


def test_parts_of_a_log_are_one_process_in_order_and_one_may_be_missing(tmp_path: Path) -> None:
    for part in (0, 2, 10):
        log_of(tmp_path, f"7-1.{part}.jsonl").write_text(
            line(event="process", at=1.0, pid=7, rank=1) + line(event="compile_start", at=1.0 + part, id=f"0/{part}")
        )
    log = read_job(tmp_path)
    (process,) = log.run.processes
    assert [each.id for each in process.events if isinstance(each, CompileStarted)] == ["0/0", "0/2", "0/10"]


def test_a_rank_that_only_makes_steps_is_part_of_the_job(tmp_path: Path) -> None:
    log_of(tmp_path)
    (tmp_path / "ranks" / "9-1.json").write_text('{"pid": 9, "rank": 4, "steps": 12}')
    assert is_job(tmp_path)
    assert [each.started.rank for each in read_job(tmp_path).run.processes] == [4]
