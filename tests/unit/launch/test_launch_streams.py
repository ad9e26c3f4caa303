"""What the target's output becomes on a terminal, in a file, and in memory."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.launch.streams import Prefixer, Pump, Source, Streams

PIECES = st.lists(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\x1b[31m", b" "])).map(b"".join))


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


def test_the_last_lines_read_as_they_looked() -> None:
    streams = Streams("model.py", stream=io.StringIO())
    streams.feed("stderr", b"\r 10%\r100%\r\n\x1b[1;31mError\x1b[0m: \xff \x1b]8;;http://x\x07link\x1b]8;;\x07\n\n")
    assert streams.last_lines() == ["100%", "Error: \N{REPLACEMENT CHARACTER} link"]


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


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([b"one\ntwo\n"], b"m | one\nm | two\n"),
        ([b"on", b"e", b"\n", b"two\n"], b"m | one\nm | two\n"),
        ([b"one\n\ntwo\n"], b"m | one\nm | \nm | two\n"),
        ([b"no end"], b"m | no end"),
        ([b"dos\r\nlines\r\n"], b"m | dos\r\nm | lines\r\n"),
        ([b"dos\r", b"\nlines\r\n"], b"m | dos\r\nm | lines\r\n"),
        ([b"\r 0%", b"\r50%", b"\r100%\n"], b"\rm |  0%\rm | 50%\rm | 100%\n"),
        ([b"\x1b[31mred\n", b"still red\n"], b"m | \x1b[31mred\n\x1b[0mm | still red\n"),
        ([b""], b""),
    ],
)
def test_each_line_gets_the_prefix_once(pieces: list[bytes], shown: bytes) -> None:
    prefixer = Prefixer(b"m | ")
    assert b"".join(prefixer.feed("stdout", piece) for piece in pieces) == shown


def test_a_stream_that_goes_on_while_the_other_has_an_open_line_gets_a_line_of_its_own() -> None:
    prefixer = Prefixer(b"m | ")
    shown = [
        prefixer.feed("stderr", b"\r10%"),
        prefixer.feed("stdout", b"loss 1\n"),
        prefixer.feed("stderr", b"\r20%"),
        prefixer.close(),
    ]
    assert b"".join(shown) == b"\rm | 10%\nm | loss 1\n\rm | 20%\n"


@given(PIECES)
def test_how_a_stream_is_cut_into_pieces_changes_nothing(pieces: list[bytes]) -> None:
    in_pieces, whole = Prefixer(b"m | "), Prefixer(b"m | ")
    shown = b"".join(in_pieces.feed("stdout", piece) for piece in pieces)
    assert shown == whole.feed("stdout", b"".join(pieces))


@given(PIECES)
def test_nothing_of_the_target_is_lost(pieces: list[bytes]) -> None:
    prefixer = Prefixer(b"m | ")
    shown = b"".join(prefixer.feed("stdout", piece) for piece in pieces)
    assert shown.replace(b"\x1b[0m", b"").replace(b"m | ", b"") == b"".join(pieces)


def shown(*pieces: tuple[str, bytes], once: bool = True, quiet: bool = False) -> str:
    stream = io.StringIO()
    streams = Streams("net.py", stream=stream, once=once, quiet=quiet)
    for source, data in pieces:
        streams.feed("stdout" if source == "stdout" else "stderr", data)
    streams.close()
    return stream.getvalue()


def test_what_comes_again_is_counted() -> None:
    again = [("stderr", b"Failed to load a.so\n"), ("stderr", b"other\n")] * 3
    assert shown(*again) == "Failed to load a.so\nother\ndynalyze: 2 lines above came again, 4 times in all\n"


def test_a_line_may_come_in_pieces_and_need_not_end() -> None:
    assert shown(("stdout", b"al"), ("stderr", b"between\n"), ("stdout", b"one\nopen")) == "between\nalone\nopen"


class SlowStreams(Streams):
    """Takes nothing until `released`, as a terminal does that somebody has stopped."""

    def __init__(self) -> None:
        super().__init__("m", stream=io.StringIO())
        self.busy = threading.Event()
        self.released = threading.Event()
        self.got: dict[Source, bytes] = {"stdout": b"", "stderr": b""}

    def feed(self, source: Source, data: bytes) -> None:
        self.busy.set()
        self.released.wait()
        self.got[source] += data


def test_what_is_left_in_the_pipes_at_the_end_comes_through_though_others_hold_them() -> None:
    streams = SlowStreams()
    with Pump(streams) as pump:
        somebody_else = [os.dup(pump.stdout), os.dup(pump.stderr)]
        os.write(pump.stdout, b"first ")
        streams.busy.wait()
        os.write(pump.stdout, b"second")
        os.write(pump.stderr, b"x" * 60_000)
        threading.Timer(0.2, streams.released.set).start()
    for descriptor in somebody_else:
        os.close(descriptor)
    assert streams.got == {"stdout": b"first second", "stderr": b"x" * 60_000}
