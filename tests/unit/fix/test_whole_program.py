"""What of two runs of a program is stable, and what a third one does otherwise."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest
import torch

from dynalyze.fix.whole_program import (
    Gate,
    ProgramRun,
    _differences,
    _left,
    _of_program,
    _other_files,
    _other_lines,
    _unusable,
    _without_places,
)
from dynalyze.launch.observe import Observation
from dynalyze.launch.sandbox import Again
from dynalyze.launch.spec import TargetSpec
from dynalyze.privacy import shortened
from dynalyze.report import OutsideEffect
from dynalyze.report.fixes import WholeProgram
from dynalyze.report.sensitivity import Holds
from sample_reports import empty_report

SAME = ["start", "loss 0.5", ""]


@pytest.mark.parametrize(
    ("other", "after", "said"),
    [
        (SAME, SAME, ""),
        (SAME, ["start", "loss 0.6", ""], "prints 'loss 0.6' instead of 'loss 0.5'"),
        (SAME, ["start", ""], "no longer prints 'loss 0.5'"),
        (SAME, ["start", "loss 0.5", "more", ""], "prints 'more' in addition"),
        (["start", "loss 0.7", ""], ["start", "loss 0.9", ""], ""),
        (["start", "loss 0.7", ""], ["start", "cost 0.9", ""], "prints 'cost 0.9' instead of 'loss 0.5'"),
        (["start", "another", ""], SAME, None),
        (["start", ""], SAME, None),
    ],
)
def test_lines(other: list[str], after: list[str], said: str | None) -> None:
    found = _other_lines(SAME, other, after)
    assert found == said


def test_of_a_long_line_that_part_is_quoted_that_a_report_shows() -> None:
    """A text of more than 40 characters is a value of the program there, and hidden."""
    before, after = (f"{'step ' * 20}loss {loss}{' ok' * 30}" for loss in ("0.5", "0.6"))
    found = _other_lines([before], [before], [after])
    assert found is not None and "loss 0.6 ok" in found and "loss 0.5 ok" in found
    assert shortened(Holds.QUOTE, found) == found


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
    found.different = next(_differences(found, run(), run(), run("failed", 1, "The program raised TypeError: no")), "")
    assert found.different == "with the change, the program raised TypeError: no" and not found.compared


def test_a_program_that_does_not_agree_with_itself_tells_nothing() -> None:
    assert "ends in two ways" in _unusable(run(), run("failed", 1, "The program raised ValueError: x"))
    failed = run("failed", 1, "The program raised OSError: no network")
    assert _unusable(failed, failed) == "run again as it is, the program raised OSError: no network"
    assert "did not finish" in _unusable(run("timed_out"), run())


def test_the_counts_of_a_program_that_cannot_be_run_again_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = run("failed", 1, "The program raised OSError: no network")
    monkeypatch.setattr(Gate, "_run", lambda self, observation: failed)
    observation = Observation(TargetSpec("script", "model.py", path="model.py"))
    found, after = Gate(observation, Again("sandbox"), lambda _: None).check(observation, {})
    assert after is None and len(found.unchecked) == 1 and not found.different


def test_lines_that_differ_by_themselves_are_unchecked_and_those_of_standard_error_left_out() -> None:
    found = WholeProgram()
    one, other = run(printed=["a"], errors=["x"]), run(printed=["b"], errors=["y"])
    found.different = next(_differences(found, one, other, one), "")
    assert not found.different and found.compared == ["exit status"]
    assert len(found.unchecked) == 1 and "printed lines" in found.unchecked[0]
    assert len(found.left_out) == 1 and "standard error" in found.left_out[0]


@pytest.mark.parametrize("said", ["{}:{}: UserWarning: slow", '  File "{}", line {}, in forward'])
def test_a_line_number_counts_in_files_that_do_not_change_alone(said: str) -> None:
    for file, alike in (("/p/net.py", True), ("/p/other.py", False)):
        before, after = (_without_places(run(errors=[said.format(file, number)]), ["/p/net.py"]) for number in (47, 49))
        assert (before.errors == after.errors) == alike


def printing(*printed: str, status: int = 0, effects: tuple[tuple[str, str], ...] = (), **files: str) -> ProgramRun:
    made = empty_report()
    made.outcome.status, made.outcome.exit_status = "complete", status
    made.capture.outside_effects = [OutsideEffect(*each) for each in effects]
    return ProgramRun(made, list(printed), [], files)


def compared(one: ProgramRun, other: ProgramRun, after: ProgramRun) -> WholeProgram:
    found = WholeProgram(sandboxed=True)
    found.different = next(_differences(found, one, other, after), "")
    return found


def test_of_a_line_only_the_numbers_that_change_by_themselves_may_be_others() -> None:
    one, other = printing("1.5 s, loss 0.25"), printing("1.6 s, loss 0.25")
    assert not compared(one, other, printing("9.9 s, loss 0.25")).different
    assert "loss 0.75" in compared(one, other, printing("1.5 s, loss 0.75")).different
    assert compared(one, other, one).left_out == [
        "some numbers in printed lines differ between two runs of the unchanged program"
    ]


def test_a_file_that_is_never_the_same_is_told() -> None:
    found = compared(printing(log="1 a"), printing(log="2 b"), printing(log="3 c"))
    assert not found.different and "log" in found.left_out[0]


def test_what_reaches_others_may_not_be_more() -> None:
    sends = ("sends to", "127.0.0.1:80")
    assert "sends to 127.0.0.1:80" in compared(printing(), printing(), printing(effects=(sends,))).different
    at_any_port = [printing(effects=(("listens on", f"127.0.0.1:{port}"),)) for port in (41, 42, 43)]
    assert not compared(*at_any_port).different


_TORCH = str(Path(torch.__file__).with_name("functional.py"))
_FIRST_LINE = linecache.getline(_TORCH, 1).strip()


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (["V0226 12:00:00.123456 1234 torch/_dynamo/guards.py:12] [0/0] text"], []),
        (["I0226 12:00:00.123456 1234 train.py:12] loss 3"], ["I0226 12:00:00.123456 1234 train.py:12] loss 3"]),
        ([f"{__file__}:1: UserWarning: slow", "loss 3"], [f"{__file__}:1: UserWarning: slow", "loss 3"]),
        ([f"{_TORCH}:1: UserWarning: slow", "more", f"  {_FIRST_LINE}", "  loss 3"], ["  loss 3"]),
        ([f"{_TORCH}:1: UserWarning: slow", "  loss 3"], ["  loss 3"]),
    ],
)
def test_of_standard_error_only_what_torch_writes_is_left_out(lines: list[str], left: list[str]) -> None:
    assert list(_of_program(lines)) == left


def test_a_number_may_have_another_sign() -> None:
    assert not compared(run("sum -1.5"), run("sum 2.25"), run("sum 0.5")).unchecked


@pytest.mark.parametrize(
    ("name", "before", "after", "different"),
    [
        ("torch.float32_matmul_precision", ["highest", "highest"], "medium", True),
        ("torch.initial_seed", [1, 2], 0, False),  # Another one in each run.
        ("torch.is_grad_enabled", [True, True], False, False),
        ("torch._dynamo.config.capture_scalar_outputs", [False, False], True, False),
    ],
)
def test_a_program_that_sets_torch_otherwise(name: str, before: list[object], after: object, different: bool) -> None:
    runs = [ProgramRun(empty_report()) for _ in range(3)]
    for run, value in zip(runs, [*before, after], strict=True):
        run.report.settings = {name: value}
    found = WholeProgram()
    found.different = next(_differences(found, *runs), "")
    assert (name in found.different) is different


@pytest.mark.parametrize(
    ("before", "after", "different"),
    [
        (["a", "a"], "b", True),
        (["a", "a"], None, True),  # A variable that is no longer there.
        ([None, None], "b", True),
        (["a", "b"], "c", False),
        (["a", "a"], "a", False),
    ],
)
def test_what_a_program_leaves_set(before: list[str | None], after: str | None, different: bool) -> None:
    left = [{"other": "x"} | ({"warnings.filters": each} if each else {}) for each in (*before, after)]
    found = WholeProgram()
    found.different = next(_differences(found, *(ProgramRun(empty_report(), left=each) for each in left)), "")
    assert ("warnings.filters" in found.different) is different


def test_what_compilers_keep_is_no_file_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"):
        monkeypatch.setenv(name, f"/caches/{name}")
    kept = {"/caches/other": "100644 a", "/caches/TRITON_CACHE_DIRs/x": "100644 b"}
    caches = ("TORCHINDUCTOR_CACHE_DIR/x.lock", "TRITON_CACHE_DIR/k/y.so", "TORCH_EXTENSIONS_DIR/z")
    others = {f"/caches/{name}": "100644 c" for name in caches} | {"/run/left": "100644 d", "/made": "40755"}
    assert _left(kept | others, Path("/run")) == kept
