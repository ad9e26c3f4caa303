"""The workload of a measuring worker: the steps of a pass, over a model or over anything that stands in its place.

A pass runs every step once, in order. Its time is the sum of what `run` took; `prepare` is never timed.
"""

from __future__ import annotations

import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dynalyze.capture.bench.failures import Failed


class Step(ABC):
    """One call of a pass."""

    def prepare(self) -> None:  # noqa: B027 - a step that leaves nothing behind has nothing to restore.
        """Untimed: bring inputs, caches and random states to what they were before the first pass."""

    @abstractmethod
    def run(self) -> Any:
        """Timed: make the call and return its outputs."""

    def given(self) -> Iterator[Any]:
        """Once prepared: what the call is given, its inputs and the tensors of its modules, as far as it knows them."""
        return iter(())


@dataclass(eq=False)
class Workload(ABC):
    """A model with the calls to make; one object serves eager, compiled and fp64 stand-ins of the model alike.

    `items` (samples) and `tokens` are what one pass handles. None means: not known. `notes` are lines for the report.
    `second_gradients`: the program takes gradients of the gradients of these calls.
    """

    model: Callable[..., Any]
    phase: str = "forward"
    batch: int | None = None
    sequence: int | None = None
    items: float | None = None
    tokens: float | None = None
    notes: list[str] = field(default_factory=list)
    second_gradients: bool = False

    def tensors(self) -> Iterator[Any]:
        """Tensors that tell device and dtype of the work; those of the model, where it has any."""
        for name in ("parameters", "buffers"):
            yield from getattr(self.model, name, tuple)()

    def referenced(self) -> Iterator[Any]:
        """What calls are given that is not made anew for each: what one changes in it, all later ones meet."""
        return iter(())

    def as_written(self) -> Callable[..., Any]:
        """The model as the program compiled it, made anew. Raises Failed: it did not, or that cannot travel."""
        raise Failed("misuse", "the target is not compiled by a program of its own")

    @abstractmethod
    def steps(self, target: Callable[..., Any]) -> list[Step]:
        """The steps of one pass that call `target` where the original calls the model.

        Steps of two targets share nothing that a run can change.
        """


def run_untimed(steps: Iterable[Step]) -> None:
    for step in steps:
        step.prepare()
        step.run()


def seed(number: int) -> None:
    """Set every random generator that is in use; those of modules not yet imported are left alone."""
    random.seed(number)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(number)
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed(number)
