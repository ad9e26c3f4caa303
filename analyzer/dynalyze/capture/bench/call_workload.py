"""Recorded or given calls as a workload, each as if it were the first; and training steps around the calls of one.

What a call changes in its inputs, in the buffers of the model or in the random generators is put back before the
next one, outside the timed part. What nothing changes is left alone.

A training step around the calls of any workload is forward, backward from one scalar, and the optimizer's step. All
three are timed together. Setting the gradients to None is not: it does no arithmetic. The learning rate is 0, so the
optimizer does all of its work and every pass meets the same weights. What a configuration compiles is the model: its
forward and its backward. The loss and the optimizer run in eager in every configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree

from dynalyze.capture.bench.compare import identical
from dynalyze.capture.bench.failures import Failed
from dynalyze.capture.bench.language import LanguageWorkload
from dynalyze.capture.bench.workload import Step, Workload
from dynalyze.capture.call_context import ModuleStates, RandomState, version_of
from dynalyze.capture.clone import CannotClone, Frozen, freeze
from dynalyze.capture.inputs import Inputs
from dynalyze.capture.settings import LANGUAGE_PHASES, Phase

_NO_BUDGET = 1 << 62
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
OPTIMIZER = "AdamW"


def workload_over(model: Callable[..., Any], calls: list[Inputs] | None, phase: Phase, **language: Any) -> Workload:
    """What is done with a model in one phase; `language` are further arguments of `LanguageWorkload`. Raises Misuse: it
    does not have this phase.
    """
    if phase in LANGUAGE_PHASES:
        return LanguageWorkload(model, phase, calls=calls, **language)
    return CallsWorkload(model, calls or [], phase=phase, grad=phase == "train")


class CallsWorkload(Workload):
    """Calls of a module or function; with gradients if `grad`, or where an input requires one (forces)."""

    def __init__(self, model: Callable[..., Any], calls: list[Inputs], *, phase: str, grad: bool) -> None:
        super().__init__(model, phase, **pass_sizes(calls))
        self._grad = grad or any(tensor.requires_grad for tensor in tensors_in([tuple(call) for call in calls]))
        try:
            self._frozen = [freeze(tuple(call), _NO_BUDGET) for call in calls]
        except CannotClone as error:
            raise Failed("not_replayable", f"the inputs cannot be kept for later calls: {error}") from error
        self._random = RandomState.now()
        self._buffers = _Buffers(model)

    def tensors(self) -> Iterator[Any]:
        yield from super().tensors()
        for frozen in self._frozen:
            yield from tensors_in(frozen.thaw())

    def referenced(self) -> Iterator[Any]:
        for frozen in self._frozen:
            yield from frozen.held()

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        return [_Call(target, frozen, self._buffers, self._random, self._grad) for frozen in self._frozen]


@dataclass(eq=False)
class _Call(Step):
    """One call; its inputs are made anew only where an earlier run of it changed them."""

    target: Callable[..., Any]
    frozen: Frozen
    buffers: _Buffers
    random: RandomState
    grad: bool
    _inputs: Inputs | None = None
    _marks: Any = None
    _compared: bool = False

    def __post_init__(self) -> None:
        # Where there are tensors and plain values alone, versions tell of every change.
        inputs = _pytree.tree_leaves(self.frozen.thaw())
        self._renew = not all(type(leaf) is torch.Tensor or isinstance(leaf, _PLAIN) for leaf in inputs)

    def prepare(self) -> None:
        if self._inputs is None or self._renew or self._changed():
            self._inputs = Inputs(*self.frozen.thaw())
            self._marks = _marks(self._inputs)
        for tensor in tensors_in(self._inputs):
            tensor.grad = None
        self.buffers.restore()
        self.random.restore()

    def run(self) -> Any:
        inputs = self._inputs
        assert inputs is not None, "prepare() comes first"
        with torch.set_grad_enabled(self.grad):
            return self.target(*inputs.args, **inputs.kwargs)

    def given(self) -> Iterator[Any]:
        yield from tensors_in(self._inputs)

    def _changed(self) -> bool:
        """Whether a run has changed its inputs; if one did, every later one is given fresh ones."""
        inputs = self._inputs
        self._renew = _marks(inputs) != self._marks
        if not self._renew and not self._compared:  # Once: not every kernel raises the version of what it writes to.
            self._compared = True
            before = tensors_in(self.frozen.thaw())
            self._renew = not all(identical(one, two) for one, two in zip(tensors_in(inputs), before, strict=True))
        return self._renew


class _Buffers:
    """The buffers and training flags of a module, as they were before its first call."""

    def __init__(self, model: Any) -> None:
        self._state = None
        if isinstance(model, torch.nn.Module):
            try:
                self._state, _ = ModuleStates().take(model, _NO_BUDGET)
            except CannotClone:
                return
            # BatchNorm counts up its statistics without a new version: only modules that train do so.
            self._always = any(part.training and part._buffers for part in self._state.parts)
            self._held = [part._buffers for part in self._state.parts if part._buffers]
            self._marks = self._now()

    def restore(self) -> None:
        if self._state is not None and (self._always or self._now() != self._marks):
            self._state.restore()
            self._marks = self._now()

    def _now(self) -> list[tuple[int, int]]:
        tensors = [tensor for held in self._held for tensor in held.values() if isinstance(tensor, torch.Tensor)]
        return [(id(tensor), version_of(tensor)) for tensor in tensors]


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _marks(value: Any) -> tuple[Any, list[int]]:
    """A value that changes with the nesting of another, or with a write to one of its tensors."""
    return _pytree.tree_structure(value), list(map(version_of, tensors_in(value)))


def pass_sizes(calls: Iterable[Any]) -> dict[str, Any]:
    """`batch`, `sequence`, `items` and `tokens` of a pass over calls with these inputs, None where they do not tell.

    The batch is the first dimension of the first tensor of a call that has any, and there is a sequence where that
    tensor holds token ids.
    """
    sizes: list[tuple[int, int]] = []
    for call in calls:
        first = next((tensor for tensor in tensors_in(call) if tensor.dim()), torch.empty(0))
        is_tokens = first.dim() == 2 and first.dtype in (torch.int64, torch.int32)
        sizes.append((first.shape[0], first.shape[1] if is_tokens else 0))
    batch, sequence = sizes[0] if len(set(sizes)) == 1 else (0, 0)
    return {
        "batch": batch or None,
        "sequence": sequence or None,
        "items": float(sum(batch for batch, _ in sizes)) if all(batch for batch, _ in sizes) else None,
        "tokens": float(sum(b * s for b, s in sizes)) if all(s for _, s in sizes) else None,
    }


class TrainWorkload(Workload):
    """Another workload's calls, each followed by backward and, where it `optimizes`, a step of the optimizer: its
    learning rate is 0, and still it makes NaN of a parameter whose gradient is none.
    """

    def __init__(self, inner: Workload, *, optimizes: bool = True) -> None:
        super().__init__(
            inner.model, phase="train", batch=inner.batch, sequence=inner.sequence, items=inner.items,
            tokens=inner.tokens, notes=list(inner.notes), second_gradients=inner.second_gradients,
        )  # fmt: skip
        self._inner = inner
        self._optimizes = optimizes
        loss = "from the loss among the outputs, or else from their mean"
        step = f", and a step of {OPTIMIZER} with learning rate 0" if optimizes and _trained(inner.model) else ""
        self.notes.append(
            f"A training step is forward, backward {loss}{step}; loss and optimizer are not the program's."
        )

    def tensors(self) -> Iterator[Any]:
        return self._inner.tensors()

    def referenced(self) -> Iterator[Any]:
        return self._inner.referenced()

    def as_written(self) -> Callable[..., Any]:
        return self._inner.as_written()

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        trained = _trained(target if isinstance(target, torch.nn.Module) else self.model)
        optimizer = torch.optim.AdamW(trained, lr=0.0) if trained and self._optimizes else None
        return [TrainStep(step, trained, optimizer) for step in self._inner.steps(target)]


def _trained(owner: Any) -> list[torch.nn.Parameter]:
    """The parameters that the optimizer steps; a function has none of its own."""
    return [p for p in owner.parameters() if p.requires_grad] if isinstance(owner, torch.nn.Module) else []


@dataclass(eq=False)
class TrainStep(Step):
    inner: Step
    trained: list[torch.nn.Parameter]
    optimizer: torch.optim.Optimizer | None

    def prepare(self) -> None:
        for parameter in self.trained:
            parameter.grad = None
        self.inner.prepare()

    def run(self) -> Any:
        with torch.enable_grad():
            outputs = self.inner.run()
            loss_of(outputs).backward()
        if self.optimizer is not None:
            self.optimizer.step()
        return outputs

    def given(self) -> Iterator[Any]:
        yield from self.trained
        yield from self.inner.given()


def loss_of(outputs: Any) -> torch.Tensor:
    """The loss among the outputs, else the mean of all that have a gradient. Raises Failed without any."""
    loss = getattr(outputs, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return loss.mean()
    parts = [x for x in _pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not parts:
        raise Failed("eager", "no output has a gradient, so there is no training step to time")
    means = [(torch.view_as_real(x) if x.is_complex() else x).float().mean() for x in parts]
    return torch.stack(means).sum()
