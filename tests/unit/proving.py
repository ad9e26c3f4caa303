"""Proves a change of a small program in this very process: what a measuring process does, without its start."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

from dynalyze.capture.bench.call_workload import CallsWorkload, TrainWorkload
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.fixing.prove import ChangeChecker
from dynalyze.capture.fixing.records import CheckRequest, CheckResult, SourceChange
from dynalyze.capture.inputs import Inputs
from dynalyze.capture.source_texts import HELD

CONFIGURATION = Configuration(name="compiled", compile=True, backend="inductor")


def module_of(source: str, file: Path) -> types.ModuleType:
    """A program that was run from this file."""
    file.write_text(source, encoding="utf-8")
    module = types.ModuleType("__main__")
    module.__file__ = str(file)
    HELD.hold(str(file), source.encode())
    exec(compile(source, str(file), "exec"), module.__dict__)
    return module


def workload_of(module: types.ModuleType, *, train: bool = False, grad: bool = False, twice: bool = False) -> Workload:
    """The calls that a program names: `calls`, a list of tuples of arguments, of its `model`."""
    calls = [Inputs(tuple(given), {}) for given in module.calls]
    workload: Workload = CallsWorkload(module.model, calls, phase="forward", grad=train or grad)
    workload.second_gradients = twice
    return TrainWorkload(workload) if train else workload


def proof_of(
    folder: Path, source: str, was: str, becomes: str, *, train: bool = False, grad: bool = False, draws: int = 4,
    settings: dict[str, Any] | None = None, baseline: bool = False, twice: bool = False,
    sides: tuple[str, ...] = (),
) -> CheckResult:  # fmt: skip
    """What is found out about a program in which some text is changed, after a look at its `baseline`. `sides` are
    beginnings of lines of the program that calls are to reach, and `twice` says that it takes gradients of gradients.
    """
    assert was in source or not was, "the text is not there"
    file = folder / "program.py"
    module = module_of(source, file)
    folder = folder / "events"
    folder.mkdir()
    checker = ChangeChecker(workload_of(module, train=train, grad=grad, twice=twice), CONFIGURATION, "cpu", folder)
    problem = checker.baseline().problem if baseline else ""
    assert not problem, problem
    new = source.replace(was, becomes) if was else becomes
    changes = [SourceChange(str(file), source, new)] if new != source else []
    lines = enumerate(source.splitlines(), 1)
    wanted = [(str(file), number) for number, line in lines if line.strip().startswith(sides or ("\n",))]
    return checker.check(CheckRequest(changes, settings or {}, draws, 20.0, wanted))


def against(proof: CheckResult, *, loses: tuple[str, ...] = ()) -> str:
    """What speaks against a change; "" where it was verified."""
    if proof.problem:
        return proof.problem
    for arm, each in proof.own.items():
        if each.equality == "different":
            return f"{arm}: {each.why}"
    if proof.draws.different or proof.draws.unproved:
        return proof.draws.different or proof.draws.unproved
    effects = proof.own["traced"].effects + proof.draws.effects
    lacking = tuple(kind if kind == "raises" else f"not {kind}" for kind in loses)
    return next((each for each in effects if not each.startswith(lacking)), "")
