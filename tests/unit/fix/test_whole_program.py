"""What of two runs of a program is stable, and what a third one does otherwise."""

from __future__ import annotations

import pytest

from dynalyze.fix.whole_program import ProgramRun, _compare, _of_program, _other_files, _other_lines, _unusable
from dynalyze.report.fixes import WholeProgram
from sample_reports import empty_report

SAME = ["start", "loss 0.5", ""]


@pytest.mark.parametrize(
    ("other", "after", "said"),
    [
        (SAME, SAME, ""),
        (SAME, ["start", "loss 0.6", ""], "prints 'loss 0.6' in the place of 'loss 0.5'"),
        (SAME, ["start", ""], "no longer prints 'loss 0.5'"),
        (SAME, ["start", "loss 0.5", "more", ""], "prints 'more' in addition"),
        (["start", "loss 0.7", ""], ["start", "loss 0.9", ""], ""),
        (["start", "loss 0.7", ""], ["start", "cost 0.9", ""], "prints 'cost 0.9' in the place of 'loss 0.5'"),
        (["start", "another", ""], SAME, None),
        (["start", ""], SAME, None),
    ],
)
def test_lines(other: list[str], after: list[str], said: str | None) -> None:
    found = _other_lines(SAME, other, after)
    assert found == said


def test_what_torch_says_on_standard_error_is_not_the_programs() -> None:
    lines = [
        "step 1",
        "/v/lib/python3.12/site-packages/torch/_dynamo/variables/functions.py:2431: UserWarning: Dynamo does not know",
        "If it is a Python builtin, please file an issue",
        "  torch._dynamo.utils.warn_once(explanation)",
        "W1126 01:51:53.484000 24947 torch/_dynamo/variables/tensor.py:1759] [0/0] Graph break",
        "/home/me/model.py:3: UserWarning: mine",
        "  warnings.warn('mine')",
    ]
    assert list(_of_program(lines)) == ["step 1", "/home/me/model.py:3: UserWarning: mine", "  warnings.warn('mine')"]


@pytest.mark.parametrize(
    ("one", "other", "after", "said"),
    [
        ({"/a": "1"}, {"/a": "1"}, {"/a": "1"}, ""),
        ({"/a": "1"}, {"/a": "1"}, {"/a": "2"}, "leaves /a with other contents"),
        ({"/a": "1"}, {"/a": "2"}, {"/a": "3"}, ""),
        ({"/a": "1"}, {"/a": "2"}, {}, "no longer leaves /a"),
        ({}, {}, {"/b": "1"}, "leaves /b in addition"),
        ({"/tmp/x1": "1"}, {"/tmp/x2": "1"}, {"/tmp/x3": "1"}, ""),
    ],
)
def test_files(one: dict[str, str], other: dict[str, str], after: dict[str, str], said: str) -> None:
    assert _other_files(one, other, after) == said


def run(status: str = "complete", exit_status: int = 0, message: str = "", **more: list[str]) -> ProgramRun:
    report = empty_report(status, message)  # type: ignore[arg-type]
    report.outcome.exit_status = exit_status
    return ProgramRun(report, **more)  # type: ignore[arg-type]


def test_how_it_ends_comes_first() -> None:
    found = WholeProgram()
    _compare(found, run(), run(), run("failed", 1, "The program raised TypeError: no"))
    assert found.different == "with the change, the program raised TypeError: no" and not found.compared


def test_a_program_that_does_not_agree_with_itself_tells_nothing() -> None:
    assert "ends in two ways" in _unusable(run(), run("failed", 1, "The program raised ValueError: x"))
    failed = run("failed", 1, "The program raised OSError: no network")
    assert _unusable(failed, failed) == "run again as it is, the program raised OSError: no network"
    assert "left to its end" in _unusable(run("timed_out"), run())


def test_lines_that_differ_by_themselves_are_unchecked_and_those_of_standard_error_left_out() -> None:
    found = WholeProgram()
    one, other = run(printed=["a"], errors=["x"]), run(printed=["b"], errors=["y"])
    _compare(found, one, other, one)
    assert not found.different and found.compared == ["exit status"]
    assert len(found.unchecked) == 1 and "printed lines" in found.unchecked[0]
    assert len(found.left_out) == 1 and "standard error" in found.left_out[0]
