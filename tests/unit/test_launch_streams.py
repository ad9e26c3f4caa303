"""What the target's output becomes on our side, without any process."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from dynalyze.launch.streams import Streams


class Terminal:
    """The two ends of a pseudo terminal: `stream` to give to Streams, `shown()` for what arrived."""

    def __init__(self) -> None:
        self._screen, end = os.openpty()
        self.stream: TextIO = os.fdopen(end, "w")

    def shown(self) -> bytes:
        """Everything so far; the terminal itself makes \\r\\n of \\n, which is undone here."""
        self.stream.write("<end>")
        self.stream.flush()
        data = b""
        while not data.endswith(b"<end>"):
            data += os.read(self._screen, 65536)
        return data.removesuffix(b"<end>").replace(b"\r\n", b"\n")

    def close(self) -> None:
        self.stream.close()
        os.close(self._screen)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    yield terminal
    terminal.close()


def bytes_stream() -> tuple[io.BytesIO, TextIO]:
    buffer = io.BytesIO()
    return buffer, io.TextIOWrapper(buffer, encoding="utf-8")


def test_bytes_pass_unchanged_where_there_is_no_terminal() -> None:
    buffer, stream = bytes_stream()
    streams = Streams("model.py", stream=stream)
    streams.feed("stdout", b"caf\xe9 \xff\x00\r\x1b[31m")
    streams.feed("stderr", b"no label")
    streams.close()
    assert buffer.getvalue() == b"caf\xe9 \xff\x00\r\x1b[31mno label"


def test_our_own_text_stays_before_what_comes_after_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w", encoding="utf-8") as stream:
        stream.write("ours\n")
        Streams("model.py", stream=stream).feed("stdout", b"theirs\n")
    assert path.read_bytes() == b"ours\ntheirs\n"


def test_a_stream_without_bytes_gets_text() -> None:
    stream = io.StringIO()
    streams = Streams("model.py", stream=stream)
    streams.feed("stdout", "naïve".encode()[:3])
    streams.feed("stdout", "naïve".encode()[3:] + b"\xff")
    assert stream.getvalue() == "naïve\N{REPLACEMENT CHARACTER}"


def test_the_default_is_our_standard_error(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    Streams("model.py").feed("stdout", b"\xfe\n")
    assert capsysbinary.readouterr() == (b"", b"\xfe\n")


def test_a_reader_who_left_does_not_stop_us() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        streams = Streams("model.py", stream=stream)
        streams.feed("stderr", b"first\n")
        streams.feed("stderr", b"second\n")
    assert streams.last_lines() == ["first", "second"]


def test_a_terminal_that_was_made_non_blocking_gets_every_byte() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = os.urandom(1_000_000)
    with os.fdopen(writer, "w") as stream, os.fdopen(reader, "rb") as source:
        streams = Streams("model.py", stream=stream)
        feeder = threading.Thread(target=streams.feed, args=("stdout", data))
        feeder.start()
        assert source.read(len(data)) == data
        feeder.join()


def test_quiet_shows_nothing_and_remembers_the_end(terminal: Terminal) -> None:
    streams = Streams("model.py", quiet=True, stream=terminal.stream)
    streams.feed("stdout", b"loud\n")
    streams.feed("stderr", b"RuntimeError: no\n")
    streams.close()
    assert terminal.shown() == b""
    assert streams.last_lines() == ["RuntimeError: no"]


def test_the_last_lines_are_those_of_standard_error() -> None:
    streams = Streams("model.py", stream=io.StringIO())
    streams.feed("stdout", b"not this\n")
    for number in range(30):
        streams.feed("stderr", b"line %d\n" % number)
    assert streams.last_lines() == [f"line {number}" for number in range(10, 30)]


def test_the_last_lines_read_as_they_looked() -> None:
    streams = Streams("model.py", stream=io.StringIO())
    streams.feed("stderr", b"\r 10%\r100%\r\n\x1b[1;31mError\x1b[0m: \xff \x1b]8;;http://x\x07link\x1b]8;;\x07\n\n")
    assert streams.last_lines() == ["100%", "Error: \N{REPLACEMENT CHARACTER} link"]


def test_the_last_lines_are_bounded() -> None:
    streams = Streams("model.py", stream=io.StringIO())
    assert streams.last_lines() == []
    streams.feed("stderr", b"x" * 10_000_000 + b"\nend\n")
    assert streams.last_lines() == ["end"]
    streams.feed("stderr", b"y" * 10_000_000)
    assert streams.last_lines() == ["y" * 16384]


def test_a_terminal_shows_whose_line_it_is(terminal: Terminal) -> None:
    streams = Streams("model.py", stream=terminal.stream)
    streams.feed("stdout", b"one\ntw")
    streams.feed("stdout", b"o")
    streams.close()
    assert terminal.shown() == b"model.py | one\nmodel.py | two\n"


def test_the_status_line_stays_below_the_output(terminal: Terminal) -> None:
    streams = Streams("m", stream=terminal.stream)
    streams.status("compiling")
    streams.feed("stdout", b"one\n")
    streams.feed("stdout", b"tw")
    streams.status("not drawn over an open line")
    streams.feed("stdout", b"o\n")
    streams.status("")
    clear = b"\r\x1b[K"
    assert terminal.shown() == (
        b"compiling" + clear + b"m | one\ncompiling" + clear + b"m | two\nnot drawn over an open line" + clear
    )


def test_there_is_no_status_line_where_it_could_not_be_taken_back(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, stream = bytes_stream()
    Streams("m", stream=stream).status("compiling")
    assert buffer.getvalue() == b""
    monkeypatch.setenv("TERM", "dumb")
    Streams("m", stream=terminal.stream).status("compiling")
    assert terminal.shown() == b""
