"""Runs a workload compiled, and watches each operation of the graphs that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from dynalyze.capture import adapter_accuracy, adapter_bisect
from dynalyze.capture.bench.bisect_local import LocalJudge, OperationFault
from dynalyze.capture.bench.bisect_taps import Tapped, tapped
from dynalyze.capture.bench.failures import one_line

_BACKEND = f"{__name__}:observing"


@dataclass
class Watch:
    """What is compiled by `compile` is judged while it runs, until the first fault.

    `judged` counts the results that were judged; `problems` are lines on what could not be.
    """

    compile: adapter_bisect.Compile
    tolerance: float
    fault: OperationFault | None = None
    judged: int = 0
    problems: list[str] = field(default_factory=list)

    def compiled(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """A backend's answer: what runs the graph, and judges it as long as nothing was found."""
        watched = tapped(graph)
        run = self.compile(watched.graph, inputs)
        if watched.cut:
            self.problems.append(f"{watched.cut:,} operations were not looked at: their values are too large to keep")

        def call(*arguments: Any) -> Any:
            outputs = run(*arguments)
            if self.fault is None:
                self._judge(watched, arguments, outputs)
            return tuple(outputs[: watched.own_outputs])

        return call

    def _judge(self, watched: Tapped, arguments: tuple[Any, ...], outputs: Any) -> None:
        judge = LocalJudge(watched, arguments, outputs, self.tolerance)
        try:
            self.fault = judge.first_fault()
        except Exception as error:
            self.problems.append(f"The operations of a graph could not be judged: {one_line(error)}.")
        self.judged += judge.judged


_watching: list[Watch] = []


def observing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """The backend that a configuration names to be watched; see `watching`."""
    return _watching[-1].compiled(graph, inputs)


@contextmanager
def watching(watch: Watch) -> Iterator[str]:
    """The name of a backend that compiles as the watch says; with Inductor, every operation rounds as in eager."""
    _watching.append(watch)
    try:
        with adapter_accuracy.comparable_code(emulate=True):
            yield _BACKEND
    finally:
        _watching.pop()
