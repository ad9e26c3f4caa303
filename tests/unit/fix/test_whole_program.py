"""What the gate of the whole program takes for the same, on hand-built runs."""

from __future__ import annotations

import pytest

from dynalyze.fix.whole_program import ProgramRun, _compare, _of_program
from dynalyze.report import OutsideEffect
from dynalyze.report.fixes import WholeProgram
from sample_reports import empty_report


def run(*printed: str, status: int = 0, effects: tuple[tuple[str, str], ...] = (), **files: str) -> ProgramRun:
    made = empty_report()
    made.outcome.status, made.outcome.exit_status = "complete", status
    made.capture.outside_effects = [OutsideEffect(*each) for each in effects]
    return ProgramRun(made, list(printed), [], files)


def compared(one: ProgramRun, other: ProgramRun, after: ProgramRun) -> WholeProgram:
    found = WholeProgram(sandboxed=True)
    _compare(found, one, other, after)
    return found


def test_of_a_line_only_the_numbers_that_change_by_themselves_may_be_others() -> None:
    one, other = run("1.5 s, loss 0.25"), run("1.6 s, loss 0.25")
    assert not compared(one, other, run("9.9 s, loss 0.25")).different
    assert "loss 0.75" in compared(one, other, run("1.5 s, loss 0.75")).different
    assert compared(one, other, one).left_out == [
        "some numbers in printed lines are not the same in two runs of the program as it is"
    ]


def test_another_exit_status_is_another_end() -> None:
    assert "exit status 3" in compared(run(), run(), run(status=3)).different


def test_a_file_that_is_never_the_same_is_told() -> None:
    found = compared(run(log="1 a"), run(log="2 b"), run(log="3 c"))
    assert not found.different and "log" in found.left_out[0]


def test_what_reaches_others_may_not_be_more() -> None:
    sends = ("sends to", "127.0.0.1:80")
    assert "sends to 127.0.0.1:80" in compared(run(), run(), run(effects=(sends,))).different
    at_any_port = [run(effects=(("listens on", f"127.0.0.1:{port}"),)) for port in (41, 42, 43)]
    assert not compared(*at_any_port).different


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (["V0226 12:00:00.123456 1234 torch/_dynamo/guards.py:12] [0/0] text"], []),
        (["I0226 12:00:00.123456 1234 train.py:12] loss 3"], ["I0226 12:00:00.123456 1234 train.py:12] loss 3"]),
        (["/x/torch/a.py:9: UserWarning: slow", "more", "  return f(x)", "loss 3"], ["loss 3"]),
        (["/x/torch/a.py:9: UserWarning: slow", "loss 3"], ["loss 3"]),
    ],
)
def test_of_standard_error_only_what_torch_writes_is_left_out(lines: list[str], left: list[str]) -> None:
    assert list(_of_program(lines)) == left


def test_a_number_may_have_another_sign() -> None:
    assert not compared(run("sum -1.5"), run("sum 2.25"), run("sum 0.5")).unchecked
