"""What a watched process does by itself: it counts steps, and writes without ever holding up the thread that trains."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynalyze.capture.events import BreakSeen, CompileStarted, Frame
from dynalyze.watch.child import start
from dynalyze.watch.child import steps as module
from dynalyze.watch.child.events import RankState, StepSlow
from dynalyze.watch.child.steps import Steps
from dynalyze.watch.child.writer import RankWriter
from dynalyze.watch.follow import Follower, read_job


class Clock:
    now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    Clock.now = 0.0
    monkeypatch.setattr(module.time, "perf_counter", lambda: Clock.now)
    return Clock


def pass_steps(steps: Steps, clock: type[Clock], *took: float) -> None:
    for each in took:
        clock.now += each
        steps.ended("optimizer")


def test_a_step_much_longer_than_usual_is_reported_with_what_is_usual(clock: type[Clock]) -> None:
    slow: list[StepSlow] = []
    steps = Steps(slow.append, lambda: 0.0)
    pass_steps(steps, clock, *[0.1] * 40, 2.1, *[0.1] * 10)
    assert [(each.number, round(each.took, 6), each.usual, each.compiling) for each in slow] == [
        (40, 2.1, pytest.approx(0.1), 0.0)
    ]
    assert steps.number == 51


def test_a_step_that_compiled_is_always_reported_and_never_usual(clock: type[Clock]) -> None:
    slow: list[StepSlow] = []
    spent = 0.0
    steps = Steps(slow.append, lambda: spent)
    spent = 5.0
    pass_steps(steps, clock, 5.0, *[0.1] * 30)
    spent = 5.01
    pass_steps(steps, clock, 0.11)
    assert [(each.number, each.usual, round(each.compiling, 6)) for each in slow] == [
        (0, None, 5.0), (31, pytest.approx(0.1), 0.01),
    ]  # fmt: skip
    assert steps.usual == pytest.approx(0.1)


def test_steps_that_are_slow_again_and_again_are_what_is_usual(clock: type[Clock]) -> None:
    slow: list[StepSlow] = []
    steps = Steps(slow.append, lambda: 0.0)
    pass_steps(steps, clock, *[0.1, 0.1, 0.3] * 400)
    assert len(slow) < 60


def test_what_the_program_says_counts_before_its_optimizer_and_that_before_calls(clock: type[Clock]) -> None:
    steps = Steps(lambda each: None, lambda: 0.0)
    for source, expected in (("calls", 1), ("calls", 2), ("optimizer", 1), ("calls", 1), ("step", 1), ("step", 2)):
        steps.ended(source)
        assert steps.number == expected, source
    steps.ended("optimizer")
    assert (steps.number, steps.counted_by) == (2, "step")


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RankWriter]:
    writer = new_writer(tmp_path)
    yield writer
    writer.finish()


def new_writer(job: Path, most_bytes: int = 256 << 20) -> RankWriter:
    number = iter(range(10**9))
    return RankWriter(job, most_bytes, lambda: RankState(pid=os.getpid(), rank=3, host="here"), lambda: next(number))


def started(line: int = 1, version: int = 0) -> CompileStarted:
    frames = [Frame("/job/train.py", each, "f") for each in range(20)]
    return CompileStarted(id=f"{line}/{version}", code=Frame("/job/model.py", line, "forward"), stack=frames)


def written(job: Path, *kinds: type) -> list[Any]:
    return [read.event for read in Follower(job).events() if isinstance(read.event, kinds)]


def test_events_come_with_their_step_and_whose_they_are(writer: RankWriter, tmp_path: Path) -> None:
    for version in range(3):
        writer.write(started(version=version))
    writer.finish()
    rows = [json.loads(line) for path in (tmp_path / "events").iterdir() for line in path.read_text().splitlines()]
    kinds = [row["event"] for row in rows]
    assert kinds[:2] == ["process", "watch_rank"]
    assert [row["number"] for row in rows if row["event"] == "watch_step"][-3:] == [0, 1, 2]
    assert next(row for row in rows if row["event"] == "watch_rank")["rank"] == 3
    (state,) = Follower(tmp_path).states().values()
    assert state.ended and state.rank == 3


def test_what_repeats_is_written_short_or_counted(writer: RankWriter, tmp_path: Path) -> None:
    for version in range(50):
        writer.write(started(version=version))
        writer.write(BreakSeen(id=f"1/{version}", text="the same"))
    writer.finish()
    starts = written(tmp_path, CompileStarted)
    assert len(starts) == 50 and len(starts[0].stack) == 20 and len(starts[-1].stack) < 5
    assert len(written(tmp_path, BreakSeen)) == 8


def test_the_files_of_a_job_stay_within_their_bytes_and_begin_with_the_first_events(tmp_path: Path) -> None:
    most = 1 << 20
    writer = new_writer(tmp_path, most)
    for number in range(20_000):
        writer.write(started(line=number % 5000, version=number))
        if number % 500 == 0:
            writer.save()
    writer.finish()
    files = list((tmp_path / "events").iterdir())
    assert sum(path.stat().st_size for path in files) < 1.5 * most
    assert any(path.name.endswith(".0.jsonl") for path in files)
    log = read_job(tmp_path)
    assert len(log.run.processes) == 1 and log.run.unreadable == 0
    versions = [
        int(each.id.partition("/")[2]) for each in log.run.processes[0].events if isinstance(each, CompileStarted)
    ]
    assert versions == sorted(versions) and versions[0] == 0 and versions[-1] == 19_999


def test_a_full_disk_costs_the_process_nothing_and_what_is_lost_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    write = os.write

    def refuse(descriptor: int, data: bytes) -> int:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refuse)
    writer = new_writer(tmp_path)
    for number in range(6000):
        writer.write(started(version=number))
    writer.save()
    assert len(writer._kept) + len(writer._waiting) <= 4500
    full = False
    writer.write(started(line=7))
    writer.finish()
    assert any(each.id == "7/0" for each in written(tmp_path, CompileStarted))
    (state,) = Follower(tmp_path).states().values()
    assert state.lost > 1000


def test_a_disk_that_hangs_does_not_hold_up_who_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    slow_until = time.monotonic() + 1.0

    def hang(descriptor: int, data: bytes) -> int:
        time.sleep(max(0.0, slow_until - time.monotonic()))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", hang)
    writer = new_writer(tmp_path)
    for number in range(100):
        writer.write(started(version=number))
    assert not written(tmp_path, CompileStarted), "the events were handed over before the disk took the first one"
    writer.finish()
    assert len(written(tmp_path, CompileStarted)) == 100


def test_a_folder_that_is_removed_does_no_harm(writer: RankWriter, tmp_path: Path) -> None:
    writer.write(started())
    writer.save()
    for path in (tmp_path / "events").iterdir():
        path.unlink()
    (tmp_path / "events").rmdir()
    writer.write(started(version=1))
    writer.finish()
    assert [each.id for each in written(tmp_path, CompileStarted)] == ["1/0", "1/1"]


def test_a_forked_process_writes_files_of_its_own(writer: RankWriter, tmp_path: Path) -> None:
    writer.write(started())
    writer.save()

    def in_child() -> None:
        writer.write(started(line=2))
        writer.finish()

    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    child.join()
    writer.finish()
    log = read_job(tmp_path)
    ids = sorted([each.id for each in one.events if isinstance(each, CompileStarted)] for one in log.run.processes)
    assert ids == [["1/0"], ["2/0"]]


def test_a_rank_that_is_no_number_and_a_thread_that_cannot_start_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for rank in ("\u00b2", "9" * 30, "-1", "first"):
        monkeypatch.setenv("RANK", rank)
        watching = start.Watching(tmp_path)
        assert watching.state().rank is None
        watching.ended("step")
        watching._writer.finish()
        assert watching.steps.number == 1


def test_of_two_optimizers_the_first_counts_and_one_made_in_its_place_goes_on(tmp_path: Path) -> None:
    class Optimizer:
        pass

    watching = start.Watching(tmp_path)
    first, second = Optimizer(), Optimizer()
    for each in (first, second, first, second):
        watching.ended("optimizer", each)
    assert watching.steps.number == 2
    del first, each
    for _ in range(3):
        watching.ended("optimizer", second)
    assert watching.steps.number == 5
    watching._writer.finish()
