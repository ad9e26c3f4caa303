"""The search for fixes over small programs, in this process: one import of torch for all of them."""

from __future__ import annotations

import importlib.util
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.call_workload import CallsWorkload, TrainWorkload
from dynalyze.capture.bench.commands import CheckChange
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.fixing import prove
from dynalyze.capture.fixing.records import BaselineResult
from dynalyze.capture.inputs import Inputs
from dynalyze.fix import proof
from dynalyze.fix.proof import Attempt
from dynalyze.fix.search import FixSearch
from dynalyze.report import GraphBreak
from dynalyze.report.fixes import CompileCounts


@dataclass
class Searched:
    """What came of the search over one program."""

    attempts: list[Attempt] = field(default_factory=list)
    before: CompileCounts = field(default_factory=CompileCounts)
    after: CompileCounts = field(default_factory=CompileCounts)
    text: str = ""
    settings: dict[str, object] = field(default_factory=dict)
    problem: str = ""
    breaks: list[GraphBreak] = field(default_factory=list)

    @property
    def verified(self) -> list[Attempt]:
        return [each for each in self.attempts if each.status == "verified"]


def search(source: str, inputs: str, folder: Path, *, training: bool = False, draws: int = 4) -> Searched:
    """Look for fixes of `f` in a program, called with `inputs`."""
    path = folder / f"program_{len(list(folder.iterdir()))}.py"
    path.write_text(source)
    module = _imported(path)
    given: dict[str, Any] = {"torch": torch}
    calls = [Inputs(tuple(eval(inputs, given)), {})]
    workload: Any = CallsWorkload(module.f, calls, phase="forward", grad=training)
    if training:
        workload = TrainWorkload(workload)
    events = folder / f"{path.stem}_events"
    events.mkdir()
    prover = _InProcess(prove.ChangeChecker(workload, Configuration("compiled"), "cpu", events), events, draws)
    baseline = prover.baseline()
    if baseline.problem:
        return Searched(problem=baseline.problem)
    looked = FixSearch(prover, baseline, lambda _: None, calls=1)
    attempts = list(looked.run(baseline.compiled.breaks))
    text = looked.state.texts.get(str(path), source)
    return Searched(
        attempts, baseline.compiled.counts, looked.state.compiled.counts, text, looked.state.settings, "",
        baseline.compiled.breaks,
    )  # fmt: skip


def _imported(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # torch.cond in eager imports what it calls.
    spec.loader.exec_module(module)
    return module


class _InProcess(proof.ChangeProcess):
    """Asks no other process."""

    def __init__(self, checker: prove.ChangeChecker, folder: Path, draws: int) -> None:
        self._checker = checker
        self._events = folder
        self._folder = ""
        self._draws = draws
        self.originals, self._broken = {}, set()

    def _started(self) -> BaselineResult:
        return self._checker.baseline()

    def _ask(self, command: Any) -> Any:
        if isinstance(command, CheckChange):
            command.request["draws"] = min(self._draws, command.request["draws"])
        return command.carry_out(types.SimpleNamespace(changes=self._checker))

    def _end(self, error: tuple[Any, ...]) -> None:
        pass

    def _compiled(self, name: str, texts: proof.Texts | None = None) -> proof.Compiled:
        self._worker = types.SimpleNamespace(folder=self._events)  # type: ignore[assignment]
        return super()._compiled(name, texts)
