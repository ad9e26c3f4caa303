"""Lines that many processes print in turn: each is shown once, and counted."""

from __future__ import annotations

import io

from dynalyze.launch.streams import Streams

WARNING = b"W1122 07:02:45.907000 22433 torch/utils/_pytree.py:630] is deprecated\n"
SAME_LATER = b"W1122 07:03:11.120000 22518 torch/utils/_pytree.py:630] is deprecated\n"


def shown(*pieces: tuple[str, bytes], once: bool = True, quiet: bool = False) -> str:
    stream = io.StringIO()
    streams = Streams("net.py", stream=stream, once=once, quiet=quiet)
    for source, data in pieces:
        streams.feed("stdout" if source == "stdout" else "stderr", data)
    streams.close()
    return stream.getvalue()


def test_what_comes_again_is_counted() -> None:
    again = [("stderr", b"Failed to load a.so\n"), ("stderr", b"other\n")] * 3
    assert shown(*again) == (
        "Failed to load a.so\nother\ndynalyze: 2 times more: Failed to load a.so\ndynalyze: 2 times more: other\n"
    )


def test_time_and_process_in_a_line_of_torchs_log_make_no_other_line() -> None:
    told = "dynalyze: once more: torch/utils/_pytree.py:630] is deprecated\n"
    assert shown(("stderr", WARNING), ("stderr", SAME_LATER)) == WARNING.decode() + told


def test_numbers_elsewhere_make_another_line() -> None:
    assert shown(("stdout", b"step 1\nstep 2\n")) == "step 1\nstep 2\n"


def test_a_line_may_come_in_pieces_and_need_not_end() -> None:
    assert shown(("stdout", b"al"), ("stderr", b"between\n"), ("stdout", b"one\nopen")) == "between\nalone\nopen"


def test_many_lines_are_counted_together() -> None:
    lines = b"".join(b"line %d\n" % number for number in range(8))
    told = shown(("stdout", lines * 2)).splitlines()[8:]
    assert told[:5] == [f"dynalyze: once more: line {number}" for number in range(5)]
    assert told[5:] == ["dynalyze: 3 other lines came 3 times more"]


def test_without_it_all_is_passed_on() -> None:
    assert shown(("stdout", b"a\na\n"), once=False) == "a\na\n"


def test_quiet_tells_nothing() -> None:
    assert shown(("stdout", b"a\na\n"), quiet=True) == ""


def test_the_last_lines_are_kept_whether_shown_or_not() -> None:
    streams = Streams("net.py", stream=io.StringIO(), once=True)
    streams.feed("stderr", b"same\nsame\n")
    assert streams.last_lines() == ["same", "same"]
