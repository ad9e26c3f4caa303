"""The workload of an object target: its calls, with the inputs it gave, each as if it were the first.

What a call changes in its inputs, in the buffers of the model or in the random generators is put back before the
next one, outside the timed part. What nothing changes is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree

from dynalyze.capture.bench.failures import Failed
from dynalyze.capture.bench.workload import Step, Workload
from dynalyze.capture.call_context import ModuleStates, RandomState
from dynalyze.capture.clone import CannotClone, Frozen, freeze
from dynalyze.capture.inputs import Inputs

_NO_BUDGET = 1 << 62
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


class CallsWorkload(Workload):
    """Calls of a module or function, without gradients unless `grad`."""

    def __init__(self, model: Callable[..., Any], calls: list[Inputs], *, phase: str, grad: bool) -> None:
        sizes = [_sizes(call) for call in calls]
        same = sizes[0] if sizes and all(each == sizes[0] for each in sizes) else (None, None)
        batches = [batch for batch, _ in sizes]
        super().__init__(
            model, phase=phase, batch=same[0], sequence=same[1],
            items=float(sum(batch or 0 for batch in batches)) if all(batches) else None,
            tokens=float(sum((b or 0) * (s or 0) for b, s in sizes)) if all(s for _, s in sizes) else None,
        )  # fmt: skip
        self._grad = grad
        self._frozen = [_frozen(call) for call in calls]
        self._random = RandomState.now()
        self._buffers = _Buffers(model)

    def tensors(self) -> Iterator[Any]:
        yield from super().tensors()
        for frozen in self._frozen:
            yield from _tensors(frozen.thaw())

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        return [_Call(target, frozen, self._buffers, self._random, self._grad) for frozen in self._frozen]


class _Call(Step):
    """One call; its inputs are made anew only where an earlier run of it changed them."""

    def __init__(
        self, target: Callable[..., Any], frozen: Frozen, buffers: _Buffers, random: RandomState, grad: bool
    ) -> None:
        self._target = target
        self._frozen = frozen
        self._buffers = buffers
        self._random = random
        self._grad = grad
        self._inputs: Inputs | None = None
        self._renew = not _only_plain(frozen.thaw())
        self._marks: Any = None
        self._compared = False

    def prepare(self) -> None:
        if self._inputs is None or self._renew or self._changed():
            self._inputs = Inputs(*self._frozen.thaw())
            self._marks = _marks(self._inputs)
        self._drop_gradients()
        self._buffers.restore()
        self._random.restore()

    def run(self) -> Any:
        inputs = self._inputs
        assert inputs is not None, "prepare() comes first"
        with torch.set_grad_enabled(self._grad):
            return self._target(*inputs.args, **inputs.kwargs)

    def _changed(self) -> bool:
        """Whether a run has changed its inputs; if one did, every later one is given fresh ones."""
        inputs = self._inputs
        self._renew = _marks(inputs) != self._marks
        if not self._renew and not self._compared:  # Once: not every kernel raises the version of what it writes to.
            self._compared = True
            self._renew = not _equal(inputs, self._frozen.thaw())
        return self._renew

    def _drop_gradients(self) -> None:
        for tensor in _tensors(self._inputs):
            tensor.grad = None


class _Buffers:
    """The buffers and training flags of a module, as they were before its first call."""

    def __init__(self, model: Any) -> None:
        self._state = None
        self._always = False
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
        return [
            (id(tensor), -1 if tensor.is_inference() else tensor._version)
            for held in self._held
            for tensor in held.values()
            if isinstance(tensor, torch.Tensor)
        ]


def _frozen(call: Inputs) -> Frozen:
    try:
        return freeze(tuple(call), _NO_BUDGET)
    except CannotClone as error:
        raise Failed("not_replayable", f"the inputs cannot be kept for later calls: {error}") from error


def _only_plain(value: Any) -> bool:
    """Whether the inputs hold tensors and plain values alone, so that versions tell of every change."""
    return all(type(leaf) is torch.Tensor or isinstance(leaf, _PLAIN) for leaf in _pytree.tree_leaves(value))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _marks(value: Any) -> tuple[Any, list[int]]:
    """What changes with the nesting of a value, or with a write to one of its tensors."""
    versions = [-1 if tensor.is_inference() else tensor._version for tensor in _tensors(value)]
    return _pytree.tree_structure(value), versions


def _equal(value: Any, other: Any) -> bool:
    pairs = zip(_tensors(tuple(value)), _tensors(other), strict=True)
    return all(torch.equal(one, two) for one, two in pairs)


def _sizes(call: Inputs) -> tuple[int | None, int | None]:
    """Batch and sequence of one call: the batch is the first dimension of its first tensor that has any, and there is
    a sequence where that tensor holds token ids.
    """
    first = next((tensor for tensor in _tensors(tuple(call)) if tensor.dim()), None)
    if first is None:
        return None, None
    is_tokens = first.dim() == 2 and first.dtype in (torch.int64, torch.int32)
    return first.shape[0], first.shape[1] if is_tokens else None
