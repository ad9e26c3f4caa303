"""The calls of modules are seen from outside, and every class is left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from dynalyze.capture.calls import Recorder
from dynalyze.capture.in_place import InPlace, ModuleCalls

ORIGINAL = torch.nn.Module.__call__


class Plain(torch.nn.Module):
    def forward(self, x: int) -> int:
        return x + 1


class OwnCall(torch.nn.Module):
    def __call__(self, x: int) -> Any:
        return super().__call__(x * 10)

    def forward(self, x: int) -> int:
        return x + 1


class Seen:
    def __init__(self) -> None:
        self.modules: list[str] = []
        self.calls = ModuleCalls(self._handle)
        self.calls.install()

    def _handle(self, call: Any, module: Any, args: Any, kwargs: Any) -> Any:
        self.modules.append(type(module).__name__)
        self.calls.thread.inside = True
        try:
            return call(module, *args, **kwargs)
        finally:
            self.calls.thread.inside = False


@pytest.fixture
def seen() -> Iterator[Seen]:
    made = Seen()
    yield made
    made.calls.remove()
    assert torch.nn.Module.__call__ is ORIGINAL
    assert "__init_subclass__" not in vars(torch.nn.Module)


def test_each_outermost_call_is_handed_over_once(seen: Seen) -> None:
    assert Plain()(1) == 2
    assert OwnCall()(1) == 11  # Its own __call__ calls that of nn.Module.
    assert torch.nn.Sequential(Plain(), OwnCall())(1) == 21
    assert seen.modules == ["Plain", "OwnCall", "Sequential"]


def test_what_somebody_put_in_the_place_of_a_call_stays(seen: Seen) -> None:
    class Patched(torch.nn.Module):
        def __call__(self, x: int) -> Any:
            return x

    ours = vars(Patched)["__call__"]
    theirs = lambda self, x: ours(self, x) + 1  # noqa: E731
    Patched.__call__ = theirs  # type: ignore[method-assign]
    seen.calls.remove()
    assert vars(Patched)["__call__"] is theirs
    assert Patched()(1) == 2 and seen.modules == []


class Coder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.back = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.back(x)


class HoldsTheModel(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean()


@pytest.mark.parametrize("compiles", [True, False])
def test_a_run_that_records_alone_takes_the_modules_that_one_that_compiles_takes(compiles: bool) -> None:
    """torch.compile(model) leaves the model's parts alone where they are called by themselves, and a loss beside it."""
    recorder, taken = Recorder(), []
    in_place = InPlace(lambda _: None, (lambda module: module.forward) if compiles else None, recorder)
    in_place.install()
    try:
        model = Coder()
        loss = HoldsTheModel(model)
        for _ in range(2):
            loss(model(torch.ones(1, 2)))
            model.back(torch.ones(1, 2))
        taken = [type(call.module).__name__ for call in recorder.calls]
    finally:
        in_place.remove()
    assert taken == ["Coder", "Coder"]
