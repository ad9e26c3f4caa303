"""The label before each line of the target's output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.launch.streams import Prefixer

PIECES = st.lists(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\x1b[31m", b" "])).map(b"".join))


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


def test_closing_restores_the_colours_and_ends_the_line() -> None:
    prefixer = Prefixer(b"m | ")
    prefixer.feed("stdout", b"\x1b[32mgreen")
    assert prefixer.close() == b"\x1b[0m\n"
    assert prefixer.close() == b""


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
