"""Changes that one process verifies in turn, with the passes of the code as it is shared among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalyze.capture.fixing.prove import ChangeChecker
from dynalyze.capture.fixing.records import CheckRequest, CheckResult, SourceChange
from proving import CONFIGURATION, module_of, workload_of

_PROGRAM = """import torch


class Model(torch.nn.Module):
    def scaled(self, x):
        return x * 2

    def shifted(self, x):
        if x.dim() == 3:
            x = x + 2
        return x + 1

    def forward(self, x):
        return self.shifted(self.scaled(x))


model = Model()
calls = [(torch.ones(2, 3),), (torch.zeros(2, 3),)]
"""


class _InTurn:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "program.py"
        module = module_of(_PROGRAM, self._file)
        events = folder / "events"
        events.mkdir()
        self.checker = ChangeChecker(workload_of(module), CONFIGURATION, "cpu", events)
        assert not self.checker.baseline().problem

    def prove(self, was: str, becomes: str) -> CheckResult:
        assert was in _PROGRAM
        change = SourceChange(str(self._file), _PROGRAM, _PROGRAM.replace(was, becomes))
        return self.checker.check(CheckRequest([change], {}, 4, 20.0))


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory: pytest.TempPathFactory) -> _InTurn:
    return _InTurn(tmp_path_factory.mktemp("in_turn"))


def test_each_change_is_judged_by_its_own_lines(in_turn: _InTurn) -> None:
    """Also at the end, when all passes of the code as it is are known."""
    for was, becomes in (("x * 2", "x + x"), ("x + 1", "1 + x")):
        found = in_turn.prove(was, becomes)
        assert not found.draws.different and not found.draws.unproved and found.draws.tried == 4
    assert any(line == 11 for _, line in found.lines)
    assert "which is changed" in in_turn.prove("x + 2", "2 + x").draws.unproved
    again = in_turn.prove("x + 1", "1 + x")
    assert not again.draws.different and not again.draws.unproved and again.draws.tried == 4
    assert again.lines == found.lines


@pytest.mark.slow
def test_what_differs_is_found_after_changes_that_hold(in_turn: _InTurn) -> None:
    assert not in_turn.prove("x * 2", "x + x").draws.different
    own = in_turn.prove("x + 1", "x + 1 + x.abs().max() * 0.5").own["eager"]
    assert own.equality == "different"
    drawn = in_turn.prove("x + 1", "x + 1 if x.abs().max() <= 2 and x.min() == x.max() else x")
    assert drawn.own["eager"].equality == "bitwise" and "inputs drawn" in drawn.draws.different


@pytest.mark.slow
def test_new_code_that_does_not_run_is_told(in_turn: _InTurn) -> None:
    """The first one has two sides on one line."""
    for was, becomes, lines in (
        ("return x + 1", "return x + 1 if x.dim() < 5 else x", [11]),
        ("return x + 1", "y = x\n        return y + 1", []),
        ("x * 2", "x + x", []),
    ):
        assert [line for _, line in in_turn.prove(was, becomes).unrun] == lines, becomes
