"""Events on disk: one flushed line each, one file a process."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from dynalyze.capture.events import CompileEnded, Lost, Metrics
from dynalyze.capture.writer import EventWriter
from dynalyze.events.reading import read_run
from limits import WALL_SECONDS


def files(run: Path) -> list[Path]:
    return sorted((run / "events").glob("*.jsonl"))


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def in_child(run: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code with a `writer` in a process of its own."""
    head = (
        "import os, sys, threading, signal\nfrom pathlib import Path\n"
        "from dynalyze.capture.events import Lost\nfrom dynalyze.capture.writer import EventWriter\n"
        f"writer = EventWriter(Path({str(run)!r}), main=True)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, check=False, timeout=WALL_SECONDS
    )


def test_the_first_line_describes_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(sys, "argv", ["model.py", "--lr", "1"])
    EventWriter(tmp_path, main=True).write(Lost("m"))
    (path,) = files(tmp_path)
    first, second = events(path)
    assert (first["event"], first["main"], first["pid"], first["rank"]) == ("process", True, os.getpid(), 3)
    assert first["command"] == ["model.py", "--lr", "1"]
    assert (second["event"], second["message"]) == ("lost", "m")
    assert min(first["at"], second["at"]) > 1.7e9
    assert "environ" not in first


def test_only_this_user_can_read_it(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    writer.write(Lost(""))
    writer.write_text("code")
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "events", tmp_path / "texts", files(tmp_path)[0])]
    assert modes == [0o700, 0o700, 0o600]


def test_a_line_is_on_disk_when_write_returns(tmp_path: Path) -> None:
    done = in_child(tmp_path, "writer.write(Lost('last words'))\nos.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == -9
    assert [each.message for _, each in read_run(tmp_path).all() if isinstance(each, Lost)] == ["last words"]


def test_an_exec_does_not_inherit_the_file(tmp_path: Path) -> None:
    code = "writer.write(Lost(''))\nos.execv('/bin/ls', ['ls', '-l', '/proc/self/fd'])"
    assert ".jsonl" not in in_child(tmp_path, code).stdout


def test_a_fork_writes_to_a_file_of_its_own(tmp_path: Path) -> None:
    code = """
writer.write(Lost('parent, before'))
child = os.fork()
if child == 0:
    writer.write(Lost('child'))
    grandchild = os.fork()
    if grandchild == 0:
        writer.write(Lost('grandchild'))
        os._exit(0)
    os.waitpid(grandchild, 0)
    os._exit(0)
os.waitpid(child, 0)
writer.write(Lost('parent, after'))
"""
    assert in_child(tmp_path, code).returncode == 0
    told = {tuple(e.get("message") for e in events(path)[1:]): events(path)[0] for path in files(tmp_path)}
    assert set(told) == {("parent, before", "parent, after"), ("child",), ("grandchild",)}
    assert [first["main"] for key, first in told.items() if key != ("parent, before", "parent, after")] == [False] * 2
    assert len({first["pid"] for first in told.values()}) == 3
    run = read_run(tmp_path)
    assert run.processes[0].started.main


def test_a_fork_while_another_thread_writes_does_not_hang(tmp_path: Path) -> None:
    """The lock may be held by a thread that the child does not have."""
    code = """
go = True
def talk():
    while go: writer.write(Lost('x' * 100))
thread = threading.Thread(target=talk); thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        writer.write(Lost('child'))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
go = False; thread.join()
"""
    done = in_child(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert len(files(tmp_path)) == 21


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)

    def talk(number: int) -> None:
        for count in range(100):
            writer.write(Lost(f"{number}:{count}:" + "x" * 5000))

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run = read_run(tmp_path)
    assert run.unreadable == 0
    messages = [event.message for _, event in run.all() if isinstance(event, Lost)]
    assert len(messages) == 400
    for number in range(4):
        own = [int(m.split(":")[1]) for m in messages if m.startswith(f"{number}:")]
        assert own == sorted(own)


def test_long_texts_go_to_files_of_their_own(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    names = [writer.write_text(text) for text in ("one", "größe \udce9")]
    assert len(set(names)) == 2
    assert (tmp_path / names[0]).read_text() == "one"
    assert (tmp_path / names[1]).read_text(encoding="utf-8") == "größe \\udce9"


@pytest.mark.parametrize(
    "text", ["\ud800", "caf\udce9.py", "a\nb\rc", "\x00\x1b", "\u2028\x85\x0c", "变量 🔥", '"\\', "", "x" * 100_000]
)
def test_any_text_is_one_readable_line(tmp_path: Path, text: str) -> None:
    writer = EventWriter(tmp_path)
    writer.write(Lost(text))
    writer.write(Lost("next"))
    run = read_run(tmp_path)
    assert run.unreadable == 0
    first, second = (event for _, event in run.all() if isinstance(event, Lost))
    assert first.message == text.encode(errors="replace").decode()
    assert second.message == "next"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), b"bytes", Path("/x"), 2**100])
def test_a_value_that_json_does_not_know_costs_at_most_itself(tmp_path: Path, value: object) -> None:
    writer = EventWriter(tmp_path)
    writer.write(CompileEnded(id="0/0", metrics=cast(Metrics, {"odd": value, "has_guarded_code": True})))
    writer.write(Lost("next"))
    run = read_run(tmp_path)
    assert run.unreadable == 0
    assert run.count == 2


def test_what_a_disk_refuses_waits_until_it_takes_it(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "later")
    (tmp_path / "later").touch()
    for number in range(3):
        writer.write(Lost(f"{number}"))
    (tmp_path / "later").unlink()
    writer.write(Lost("3"))
    assert messages(tmp_path / "later") == ["0", "1", "2", "3"]


def test_a_line_that_was_torn_is_written_again_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = EventWriter(tmp_path)
    writer.write(Lost("first"))
    write, full = os.write, []

    def torn(descriptor: int, data: bytes) -> int:
        if full:
            raise OSError(28, "No space left on device")
        full.append(True)
        return write(descriptor, data[:10])

    monkeypatch.setattr(os, "write", torn)
    writer.write(Lost("second"))
    monkeypatch.undo()
    writer.write(Lost("third"))
    assert messages(tmp_path) == ["first", "second", "third"]


@pytest.mark.parametrize("taken", ["closed", "another file", "a copy of another descriptor"])
def test_nothing_is_written_where_the_descriptor_is_no_longer_ours(tmp_path: Path, taken: str) -> None:
    run, theirs = tmp_path / "run", tmp_path / "theirs.txt"
    run.mkdir()
    writer = EventWriter(run)
    writer.write(Lost("first"))
    descriptor = writer._descriptor
    if taken == "a copy of another descriptor":
        with theirs.open("w") as file:
            os.dup2(file.fileno(), descriptor)
    else:
        os.close(descriptor)
        if taken == "another file":
            assert os.open(theirs, os.O_WRONLY | os.O_CREAT) == descriptor
    writer.write(Lost("second"))
    writer.close()
    if taken != "closed":
        assert theirs.read_bytes() == b""
        os.close(descriptor)  # Ours to close: the writer left it open.
    assert messages(run) == ["first", "second"]
    assert [type(event).__name__ for _, event in read_run(run).all()].count("Reopened") == 1


def messages(run: Path) -> list[str]:
    return [event.message for _, event in read_run(run).all() if isinstance(event, Lost)]
