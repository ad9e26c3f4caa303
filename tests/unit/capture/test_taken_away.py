"""What a recording puts into a process goes again, in whatever order several of them end."""

from __future__ import annotations

import functools
import gc
import os
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from dynalyze.capture.events import Lost
from dynalyze.capture.hooks import Patch, after_fork
from dynalyze.capture.writer import EventWriter


def original() -> str:
    return "original"


def around(owner: types.SimpleNamespace, heard: list[str], name: str) -> Callable[[], None]:
    layer = Patch(owner, "act")

    @functools.wraps(layer.original)
    def act() -> str:
        if layer.active:
            heard.append(name)
        return str(layer.original())

    return layer.put(act)


@pytest.mark.parametrize("first_out", ["inner", "outer"])
def test_layers_end_in_any_order(first_out: str) -> None:
    owner, heard = types.SimpleNamespace(act=original), []
    ends = {"inner": around(owner, heard, "inner"), "outer": around(owner, heard, "outer")}
    assert owner.act() == "original" and heard == ["outer", "inner"]
    heard.clear()
    ends.pop(first_out)()
    (left,) = ends
    assert owner.act() == "original" and heard == [left]
    ends[left]()
    assert owner.act is original


def test_what_others_put_around_it_stays() -> None:
    owner, heard = types.SimpleNamespace(act=original), []
    end = around(owner, heard, "ours")
    surrounded = owner.act

    @functools.wraps(surrounded)  # Copies every mark of ours.
    def theirs() -> str:
        return f"theirs around {surrounded()}"

    owner.act = theirs
    end()
    assert owner.act is theirs
    assert owner.act() == "theirs around original" and heard == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_is_told_to_those_that_live(tmp_path: Path) -> None:
    class Watcher:
        def __init__(self, name: str) -> None:
            self.name = name
            after_fork(self.forked)

        def forked(self) -> None:
            (tmp_path / self.name).touch()

    gone, kept = Watcher("gone"), Watcher("kept")
    del gone
    gc.collect()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]


def test_a_closed_writer_writes_nothing(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    writer.write(Lost("one"))
    writer.close()
    writer.write(Lost("two"))
    assert writer.write_text("a graph") == ""
    (file,) = (tmp_path / "events").iterdir()
    assert [line.count('"event"') for line in file.read_text().splitlines()] == [1, 1]  # The process itself, and "one".
    assert '"two"' not in file.read_text()
