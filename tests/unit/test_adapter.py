"""The adapter on stand-ins for torch's frames of other versions than the installed one."""

from __future__ import annotations

import pytest

from dynalyze.capture import adapter


class Unsupported(Exception):
    pass


def newer(exc: Exception) -> BaseException | None:
    def log_graph_break(exc: Exception) -> BaseException | None:
        return adapter.live_break()

    return log_graph_break(exc)


def older(reason_str: str) -> BaseException | None:
    def log_graph_break(reason_str: str) -> BaseException | None:
        return adapter.live_break()

    return log_graph_break(reason_str)


def test_the_exception_behind_a_break_is_an_argument_since_2_9() -> None:
    error = Unsupported("print")
    assert newer(error) is error


def test_torch_2_8_logs_from_within_the_except_block() -> None:
    with pytest.raises(Unsupported) as caught:
        try:
            raise Unsupported("print")
        except Unsupported as error:
            assert older("print") is error
            raise
    assert str(caught.value) == "print"


def test_outside_of_any_except_block_there_is_none() -> None:
    assert older("a branch on data") is None
