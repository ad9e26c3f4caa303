"""The answers to variants of the inputs: asked one by one, in another process once one died, until the time is up."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dynalyze.bench.schedule import Arm, varied
from dynalyze.bench.workers import WorkerFailed
from dynalyze.capture.bench.commands import CompareAnswers
from dynalyze.capture.bench.protocol import VARIANTS, Command, Configuration, WorkerRequest


class _Pool:
    def __init__(self, **answers: str) -> None:
        self._answers = answers
        self.loaded = 0

    def worker(self, *_: Any) -> AbstractContextManager[Any]:
        return nullcontext(self)

    def ask(self, command: Command[Any]) -> dict[str, Any]:
        if not isinstance(command, CompareAnswers):
            self.loaded += 1
            return {}
        verdict = self._answers.get(command.variant.replace(" ", "_"), "equal")
        if verdict == "died":
            raise WorkerFailed("died", "it died")
        return {"verdict": verdict, "reason": "", "tensors": []}


def _tried(seconds: float, pool: Any) -> dict[str, str]:
    arm = Arm(WorkerRequest(source={}, configuration=Configuration("default")), None)
    return {each["name"]: each["verdict"] for each in varied(pool, arm, seconds)}


def test_each_is_told_but_for_those_that_are_no_others() -> None:
    pool = _Pool(NaN="suspicious", batch_0="left out", expanded="")
    found = _tried(60, pool)
    assert list(found) == [name for name in VARIANTS if name != "expanded"] and pool.loaded == 1
    assert (found["NaN"], found["batch 0"], found["gradients"]) == ("suspicious", "left out", "equal")


def test_one_that_ends_its_process_costs_no_other() -> None:
    pool = _Pool(gradients="died")
    found = _tried(60, pool)
    assert set(found) == set(VARIANTS) and found["gradients"] == "not comparable" and pool.loaded == 2


def test_what_the_time_does_not_last_for_is_said() -> None:
    assert set(_tried(-1, _Pool()).values()) == {"not tried"}
