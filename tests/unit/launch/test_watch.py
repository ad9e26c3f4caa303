"""Watching a run from outside, with a clock and a child that exist only here."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from dynalyze.launch.observe import RunWatch

MAIN = {"event": "process", "pid": 4711, "main": True}
TORCH = {"event": "torch", "version": "2.13.0"}


def started(compile_id: str = "0/0") -> dict[str, Any]:
    return {"event": "compile_start", "id": compile_id}


def ended(compile_id: str = "0/0") -> dict[str, Any]:
    return {"event": "compile_end", "id": compile_id}


class Scene:
    """A run folder, a clock, and what the watch did."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.now = 1000.0
        self.killed: list[tuple[int, int]] = []
        self.shown: list[str] = []
        self.gone = False
        (folder / "events").mkdir()
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(os, "kill", self._kill)

    def _kill(self, pid: int, number: int) -> None:
        self.killed.append((pid, number))
        if self.gone:
            raise ProcessLookupError

    def watch(self, stop_after: float | None = None, hint: str = "") -> RunWatch:
        return RunWatch(self.folder, stop_after, self.shown.append, hint=hint)

    def tell(self, *events: dict[str, Any], file: str = "4711-1") -> None:
        with (self.folder / "events" / f"{file}.jsonl").open("a") as log:
            log.writelines(json.dumps(event) + "\n" for event in events)

    def after(self, seconds: float, watch: RunWatch) -> bool:
        self.now += seconds
        return watch.poll()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_compilations_and_breaks_are_counted_over_all_processes(scene: Scene) -> None:
    watch = scene.watch()
    scene.tell(MAIN, started(), {"event": "break"})
    scene.tell({"event": "process", "pid": 4712}, started(), file="4712-1")
    watch.poll()
    watch.poll()
    assert (watch.compiled, watch.breaks) == (2, 1)


def test_a_line_is_read_when_it_is_whole(scene: Scene) -> None:
    watch = scene.watch()
    path = scene.folder / "events" / "4711-1.jsonl"
    line = json.dumps(started()) + "\n"
    path.write_text(line + line[:9])
    watch.poll()
    assert watch.compiled == 1
    path.write_text(line + line)
    watch.poll()
    assert watch.compiled == 2


def test_garbage_is_passed_over(scene: Scene) -> None:
    watch = scene.watch()
    lines = b'\xff\x00\n{"event": 3}\n[]\n\n' + json.dumps(started()).encode() + b"\n"
    (scene.folder / "events" / "1-1.jsonl").write_bytes(lines)
    watch.poll()
    assert watch.compiled == 1


def test_how_to_end_is_told_once_when_nothing_new_compiles(scene: Scene) -> None:
    watch = scene.watch(hint="press X")
    scene.tell(MAIN, started())
    scene.after(100, watch)  # A long compile is no silence.
    assert not [line for line in scene.shown if "press X" in line]
    scene.tell(ended())
    scene.after(5, watch)
    scene.after(40, watch)
    scene.after(40, watch)
    assert len([line for line in scene.shown if "press X" in line]) == 1


# --stop-after.


def test_a_run_is_stopped_once_nothing_new_has_compiled_for_so_long(scene: Scene) -> None:
    watch = scene.watch(stop_after=5)
    scene.tell(MAIN, TORCH, started(), ended())
    assert scene.after(1, watch) is False
    assert scene.after(4.9, watch) is False
    assert scene.killed == []
    scene.after(0.2, watch)
    assert scene.killed == [(4711, signal.SIGURG)]


def test_a_long_compile_is_not_a_pause(scene: Scene) -> None:
    watch = scene.watch(stop_after=5)
    scene.tell(MAIN, TORCH, started())
    scene.after(1, watch)
    scene.after(50, watch)
    assert scene.killed == []
    scene.tell(ended())
    scene.after(1, watch)
    scene.after(6, watch)
    assert scene.killed == [(4711, signal.SIGURG)]


# After the soft stop.


def test_a_program_that_does_not_heed_the_stop_is_ended(scene: Scene) -> None:
    watch = scene.watch(stop_after=5)
    scene.tell(MAIN, TORCH, started(), ended())
    scene.after(0, watch)
    assert scene.after(6, watch) is False
    assert scene.after(9, watch) is False
    assert scene.after(2, watch) is True
    assert len(scene.killed) == 1


@pytest.mark.parametrize("event", ["program_end", "object_start"])
def test_a_program_that_ended_by_itself_has_all_the_time_for_what_follows(scene: Scene, event: str) -> None:
    watch = scene.watch(stop_after=5)
    scene.tell(MAIN, TORCH, started(), ended())
    scene.after(0, watch)
    scene.after(6, watch)
    scene.tell({"event": event})
    assert scene.after(60, watch) is False
    assert scene.after(60, watch) is False


# Progress.


def test_progress_is_told_at_times_and_only_where_there_is_some(scene: Scene) -> None:
    watch = scene.watch()
    scene.tell(MAIN, TORCH, started(), {"event": "break"})
    scene.after(5, watch)
    assert scene.shown == []
    scene.after(6, watch)
    assert len(scene.shown) == 1
    assert "1 compilation" in scene.shown[0]
    scene.after(30, watch)
    assert len(scene.shown) == 1, "nothing new has happened"
    scene.tell(started("1/0"))
    scene.after(1, watch)
    assert len(scene.shown) == 2
    scene.tell(started("2/0"))
    scene.after(1, watch)
    assert len(scene.shown) == 2, "not that often"
