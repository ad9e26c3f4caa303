"""A training step around the calls of a workload: forward, backward from one scalar, and the optimizer's step.

All three are timed together. Setting the gradients to None is not: it does no arithmetic. The learning rate is 0, so
the optimizer does all of its work and every pass meets the same weights. What a configuration compiles is the model:
its forward and its backward. The loss and the optimizer run in eager in every configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree

from dynalyze.capture.bench.failures import Failed
from dynalyze.capture.bench.workload import Step, Workload

OPTIMIZER = "AdamW"


class TrainWorkload(Workload):
    """Another workload's calls, each followed by backward and a step of the optimizer."""

    def __init__(self, inner: Workload) -> None:
        super().__init__(
            inner.model, phase="train", batch=inner.batch, sequence=inner.sequence, items=inner.items,
            tokens=inner.tokens, notes=inner.notes,
        )  # fmt: skip
        self._inner = inner
        loss = "from the loss among the outputs, or else from their mean"
        step = f", and a step of {OPTIMIZER} with learning rate 0" if _trained(inner.model) else ""
        self.notes.append(
            f"A training step is forward, backward {loss}{step}; loss and optimizer are not the program's."
        )

    def tensors(self) -> Iterator[Any]:
        return self._inner.tensors()

    def as_written(self) -> Callable[..., Any]:
        return self._inner.as_written()

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        trained = _trained(target if isinstance(target, torch.nn.Module) else self.model)
        optimizer = torch.optim.AdamW(trained, lr=0.0) if trained else None
        return [_TrainStep(step, trained, optimizer) for step in self._inner.steps(target)]


def _trained(owner: Any) -> list[torch.nn.Parameter]:
    """The parameters that the optimizer steps; a function has none of its own."""
    return [p for p in owner.parameters() if p.requires_grad] if isinstance(owner, torch.nn.Module) else []


class _TrainStep(Step):
    def __init__(self, inner: Step, trained: list[Any], optimizer: Any) -> None:
        self._inner = inner
        self._trained = trained
        self._optimizer = optimizer

    def prepare(self) -> None:
        for parameter in self._trained:
            parameter.grad = None
        self._inner.prepare()

    def run(self) -> Any:
        with torch.enable_grad():
            outputs = self._inner.run()
            loss_of(outputs).backward()
        if self._optimizer is not None:
            self._optimizer.step()
        return outputs


def loss_of(outputs: Any) -> torch.Tensor:
    """The scalar to go backward from: the loss among the outputs, or else the mean of all that have a gradient.

    Raises:
        Failed: no output has a gradient.
    """
    loss = getattr(outputs, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return loss.mean()
    parts = [x for x in _pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not parts:
        raise Failed("eager", "no output has a gradient, so there is no training step to time")
    means = [(torch.view_as_real(x) if x.is_complex() else x).float().mean() for x in parts]
    return torch.stack(means).sum()
