"""The search for the stage and the part of it: whichever is planted is found, in few compiles."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.bench.bisect import Search
from dynalyze.capture.bench.commands import Bisect
from dynalyze.capture.bench.protocol import Configuration, WorkerRequest
from dynalyze.report.measurements import Accuracy, BrokenContract


class _Pool:
    """One worker, with the verdict of each stage; `own_kernels` is AOTAutograd that decomposes nothing."""

    def __init__(self, verdicts: dict[str, str], reason: str = "") -> None:
        self._verdicts = verdicts
        self.asks: list[dict[str, Any]] = []
        self._reason = reason
        self.planted: dict[str, int] = {}

    def ask(self, command: Any) -> dict[str, Any]:
        step, details = (command.step, command.arguments) if isinstance(command, Bisect) else ("", {})
        if step == "own_source":
            return {"places": self.asks}
        if step == "operations":
            return {"judged": 0, "problems": [], "fault": None}
        if step == "script":
            return {"reduced": None, "place": None, "script": False}
        verdict = self._verdicts.get("own_kernels" if details.get("own_kernels") else details.get("stage", ""), "equal")
        answer = {"verdict": verdict, "nonfinite": 0, "rmse": None, "reason": self._reason}
        return answer | self._switched(details.get("part", ""), details.get("kept", 0))

    def _switched(self, part: str, kept: int) -> dict[str, Any]:
        """Of Inductor with a part off but for so many: wrong from the planted one on, by its place among twenty."""
        planted = self.planted.get(part)
        if not part:
            return {}  # As with the pass disabled, by its name: right.
        names = [f"{part} {number}" for number in range(20)]
        wrong = planted is None or kept > planted
        last = names[min(kept, 20) - 1] if 0 < kept <= 20 else ""
        verdict = "suspicious" if wrong else "equal"
        return {"verdict": verdict, "applied": len(names), "last": last}

    seconds_left = 60.0

    def empty_caches(self) -> None:
        return None

    def worker(self, *_: Any) -> AbstractContextManager[Any]:
        return nullcontext(self)


@pytest.mark.parametrize(
    ("verdicts", "stage"),
    [
        ({"aot_autograd": "suspicious"}, "decompositions"),
        ({"aot_autograd": "suspicious", "own_kernels": "suspicious"}, "aot_autograd"),
        ({"aot_autograd": "suspicious", "own_kernels": "not comparable"}, "aot_autograd"),
        ({"dynamo": "suspicious", "aot_autograd": "suspicious"}, "dynamo"),
        ({"decompositions": "suspicious"}, "decompositions"),
        ({}, "inductor"),
    ],
)
def test_the_stage_is_the_first_wrong_one_and_decompositions_count_as_such_wherever_they_are_made(
    verdicts: dict[str, str], stage: str
) -> None:
    assert _search(_Pool(verdicts)).first_stage() == stage


@given(st.sampled_from(["pre_grad_passes", "post_grad_passes", "lowerings"]), st.integers(0, 19))
def test_the_pass_or_lowering_is_found_wherever_it_stands(part: str, number: int) -> None:
    pool = _Pool({})
    pool.planted[part] = number
    search = _search(pool)
    search.into_inductor()
    assert (search.found.part, search.found.applied) == (part, f"{part} {number}")
    setting = f"torch._inductor.config.disabled_passes = '{part} {number}'"
    assert search.found.workaround == ("" if part == "lowerings" else setting)


def test_the_decomposition_is_found_wherever_it_stands() -> None:
    pool = _Pool({"decompositions": "suspicious"})
    pool.planted["decomposition"] = 7
    search = _search(pool)
    search.run()
    assert (search.found.stage, search.found.part) == ("decompositions", "decomposition")
    assert (search.found.applied, search.found.workaround) == ("decomposition 7", "")


def test_where_eager_refuses_the_calls_compiled_that_refuses_them_too_is_right() -> None:
    pool = _Pool({"aot_autograd": "suspicious", "own_kernels": "not comparable"}, "Eager fails: RuntimeError.")
    assert _search(pool).first_stage() == "aot_autograd"
    refused = BrokenContract("exception", "A call", "RuntimeError", "gives an answer")
    assert _search(pool, refused).first_stage() == "decompositions"


def test_a_difference_of_dynamo_that_the_program_asked_for_is_its_own() -> None:
    pool = _Pool({"dynamo": "suspicious"})
    pool.asks = [{"file": "net.py", "line": 3, "function": "forward", "code": "if is_compiling():"}]
    search = _search(pool)
    assert search.run() == ""
    found = search.found
    assert (found.stage, found.file, found.line, found.module) == ("program", "net.py", 3, "")
    assert [(at.function, at.code) for at in found.asks] == [("forward", "if is_compiling():")]


def _search(pool: Any, *faults: BrokenContract) -> Search:
    request = WorkerRequest(source={}, configuration=Configuration("default"))
    test = Accuracy("default", verdict="suspicious", contracts=list(faults))
    return Search(test, request, pool, None, "", lambda line: None)
