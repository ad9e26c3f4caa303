"""Runs a workload compiled, and watches each operation of the graphs that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from dynalyze.capture.bench.bisect_backward import GradientJudge
from dynalyze.capture.bench.bisect_local import LocalJudge, OperationFault
from dynalyze.capture.bench.bisect_probes import Probed, probed
from dynalyze.capture.bench.bisect_taps import tapped
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.torch_private import numerics

_BACKEND = f"{__name__}:observing"


@dataclass
class Watch:
    """What is compiled by `compile` is judged while it runs, until the first fault.

    With `gradients`, those that each operation passes back are judged too, once the run is over (`finish`). `judged`
    counts the results that were judged; `problems` are lines on what could not be.
    """

    compile: numerics.Compile
    tolerance: float
    gradients: bool = False
    fault: OperationFault | None = None
    judged: int = 0
    problems: list[str] = field(default_factory=list)
    _waiting: list[GradientJudge] = field(default_factory=list)

    def compiled(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """A backend's answer: what runs the graph, and judges it as long as nothing was found."""
        watched = tapped(graph)
        watched_gradients = probed(watched) if self.gradients else Probed(watched)
        run = self.compile(watched.graph, [*inputs, *watched_gradients.fresh()])
        if watched.cut:
            self.problems.append(f"{watched.cut:,} operations were not looked at: their values are too large to keep.")
        if watched_gradients.reason:
            self.problems.append(f"The gradients in a graph were not looked at one by one: {watched_gradients.reason}.")

        def call(*arguments: Any) -> Any:
            forward = LocalJudge(watched, arguments, self.tolerance)
            backward = GradientJudge(watched_gradients, forward, self.tolerance)
            outputs = run(*arguments, *backward.fresh_probes())
            if self.fault is None:
                forward.outputs = kept(outputs) if watched_gradients.probes else outputs
                self._judge(forward)
                self._waiting += [backward] if watched_gradients.probes else []
            return tuple(outputs[: watched.own_outputs])

        return call

    def finish(self) -> None:
        """Judge the gradients, the last call's first."""
        while self._waiting and self.fault is None:
            self._judge(self._waiting.pop())
        self._waiting.clear()

    def _judge(self, judge: LocalJudge | GradientJudge) -> None:
        try:
            self.fault = judge.first_fault()
        except Exception as error:
            self.problems.append(f"The operations of a graph could not be judged: {one_line(error)}.")
        self.judged += judge.judged


def kept(outputs: Any) -> list[Any]:
    """Values that stay as they are until the backward is over: what a CUDA graph gives is written over by the next."""
    return [one.clone() if isinstance(one, torch.Tensor) and one.is_cuda else one for one in outputs]


_watching: list[Watch] = []


def observing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """The backend that a configuration names to be watched; see `watching`."""
    return _watching[-1].compiled(graph, inputs)


@contextmanager
def watching(watch: Watch) -> Iterator[str]:
    """The name of a backend that compiles as the watch says; with Inductor, every operation rounds as in eager."""
    _watching.append(watch)
    try:
        with numerics.comparable_code(emulate=True):
            yield _BACKEND
    finally:
        _watching.pop()
