"""Remedies for guards, tried on small functions in this process: what they gain, and when they are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from dynalyze.capture.bench.guard_remedies import Trial, Trials, offered, undisturbed
from dynalyze.capture.bench.timing import timer_for
from dynalyze.capture.bench.validity import Compiles
from dynalyze.capture.bench.workload import Step


class Config:
    def __init__(self, value: int) -> None:
        self.value = value


CONFIGS = [Config(value) for value in range(400)]
FLAG = Config(1)


def reads_configs(x: torch.Tensor) -> torch.Tensor:
    return x + sum(each.value for each in CONFIGS)


def reads_a_flag(x: torch.Tensor) -> torch.Tensor:
    return x + FLAG.value


@dataclass
class Call(Step):
    target: Callable[..., Any]
    flag: int = 1

    def prepare(self) -> None:
        FLAG.value = self.flag

    def run(self) -> Any:
        return self.target(torch.ones(2))


@pytest.fixture(scope="module")
def compiles() -> Compiles:
    found = Compiles()
    found.listen()
    return found


@pytest.fixture(autouse=True)
def from_nothing() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


class SlowerAtFirst:
    """Runs passes, and says of the steps it met first that they take twice as long: real ones depend on the machine."""

    def __init__(self) -> None:
        self._first: int | None = None

    def passes(self, steps: Sequence[Step], count: int, *, flush: bool = True) -> list[float]:
        self._first = id(steps) if self._first is None else self._first
        timer_for("cpu").passes(steps, count)
        return [2.0 if id(steps) == self._first else 1.0] * count


def trial(function: Callable[..., Any], name: str, compiles: Compiles, flags: Sequence[int] = (1,)) -> Trial:
    def steps() -> list[Step]:
        target = torch.compile(function, backend="eager")
        return [Call(target, flag) for flag in flags]

    compiles.made.clear()
    plain, timer = steps(), SlowerAtFirst()
    timer.passes(plain, 3)
    remedy = next(each for each in offered(None) if each.name == name)
    return Trials(plain, steps, compiles, timer, function).take(remedy, 1.0, 1.0, 50)


def test_the_guards_on_a_list_of_configs_are_dropped_and_both_sides_are_timed(compiles: Compiles) -> None:
    found = trial(reads_configs, "skip_guard_on_globals_unsafe", compiles)
    assert (found.problem, found.outputs, found.added_versions, found.added_breaks) == ("", "equal", 0, 0)
    assert found.dropped is not None and found.dropped > len(CONFIGS)
    assert len(found.plain_ms) == len(found.remedy_ms) >= 10
    assert set(found.plain_ms) == {2.0} and set(found.remedy_ms) == {1.0}


def test_turns_that_the_machine_disturbed_do_not_count() -> None:
    turns = [{0: 1.0, 1: 0.5}, {0: 1.3, 1: 0.5}, {0: 1.2, 1: 0.6}, {0: 1.0, 1: 0.7}]
    assert undisturbed(turns) == [turns[0], turns[2]]
    assert undisturbed([]) == []


def test_a_program_that_changes_what_is_no_longer_checked_is_told(compiles: Compiles) -> None:
    found = trial(reads_a_flag, "skip_guard_on_globals_unsafe", compiles, flags=(1, 2))
    assert found.outputs == "different" and "others" in found.problem
    assert not found.plain_ms and not found.remedy_ms


def test_parts_that_share_one_code_share_it_in_a_trial_too(compiles: Compiles) -> None:
    class Scaled(torch.nn.Module):
        def __init__(self, scale: int) -> None:
            super().__init__()
            self.scale = scale

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    both = Scaled(2), Scaled(3)

    def steps() -> list[Step]:
        return [Call(torch.compile(each, backend="eager")) for each in both]

    plain = steps()
    timer_for("cpu").passes(plain, 3)
    remedy = next(each for each in offered(None) if each.name == "skip_guard_on_all_nn_modules_unsafe")
    found = Trials(plain, steps, compiles, timer_for("cpu"), both[0]).take(remedy, 0.1, 1.0, 50)
    assert found.outputs == "different", "the second one runs what was compiled for the first, as the program would"


def test_a_setting_that_changes_nothing_is_not_timed(compiles: Compiles) -> None:
    found = trial(reads_a_flag, "skip_guard_on_inbuilt_nn_modules_unsafe", compiles)
    assert found.pointless and not found.plain_ms
    assert trial(reads_a_flag, "isolate_recompiles", compiles).pointless, "torch.compile is called once"


def test_a_target_that_no_setting_reaches_is_told(compiles: Compiles) -> None:
    target = torch.compile(reads_a_flag, backend="eager")
    steps: list[Step] = [Call(target)]
    timer_for("cpu").passes(steps, 1)
    remedy = offered(None)[-1]
    found = Trials(steps, lambda: steps, compiles, timer_for("cpu"), reads_a_flag).take(remedy, 0.1, 1.0, 50)
    assert "could not be given the setting" in found.problem and not found.pointless


def test_what_this_torch_lacks_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [each.name for each in offered(None)]
    assert "keep_tensor_guards_unsafe" in names
    assert "no inlining of torch's own modules" not in names, "torch 2.13 heeds it no more"
    monkeypatch.delattr(torch.compiler, "keep_tensor_guards_unsafe")
    assert [each.name for each in offered(None)] == [name for name in names if name != "keep_tensor_guards_unsafe"]
    assert [each.safe for each in offered(None)] == sorted((each.safe for each in offered(None)), reverse=True)


def test_a_mode_becomes_part_of_the_options_that_take_its_place() -> None:
    (setting,) = [each.setting for each in offered("reduce-overhead") if each.name == "skip_all_guards_unsafe"]
    assert setting.startswith('options={**torch._inductor.list_mode_options("reduce-overhead"), ')
    options = eval(setting.removeprefix("options="), {"torch": torch})
    assert options["guard_filter_fn"] is torch.compiler.skip_all_guards_unsafe
    assert options["triton.cudagraphs"] is True, "what the mode is made of"
