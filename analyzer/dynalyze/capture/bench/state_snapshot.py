"""The state that each run of the accuracy test starts from: parameters, buffers, attributes, random generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from dynalyze.capture.bench.contracts import reached_values
from dynalyze.capture.bench.workload import seed as set_seed
from dynalyze.capture.call_context import RandomState

_LARGE = 4096
"""Elements from which on a second look is worth its start."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.Tensor)


class StateSnapshot:
    """A snapshot of a model or a function and of the random generators, to begin each run alike.

    Copies lie in host memory. Of the other attributes of modules, numbers, strings and tensors are kept. Without
    `parameters` their values are left out, where nothing changes them and two copies are too much.
    """

    def __init__(self, model: Callable[..., Any], seed: int, *, parameters: bool = True) -> None:
        self._before = RandomState.now()
        self._model = model
        parts = model.modules() if isinstance(model, torch.nn.Module) else ()
        self._attributes = [
            (part, part.training, {name: value for name, value in vars(part).items() if isinstance(value, _PLAIN)})
            for part in parts
        ]
        self._buffers = [(part._buffers, dict(part._buffers)) for part, _, _ in self._attributes if part._buffers]
        held = {id(t): t for _, t in held_tensors(model)}
        self._tensors = {
            identity: (t, t.detach().to("cpu", copy=True))
            for identity, t in held.items()
            if parameters or not isinstance(t, torch.nn.Parameter)
        }
        self._gradients = [(t, t.grad) for t in held.values() if t.is_leaf]
        self.put_back_elsewhere: set[int] = set()
        """Tensors, by id, that somebody else compares and puts back."""
        set_seed(seed)
        self._start = RandomState.now()

    def restore(self) -> None:
        """Bring everything to where it was, with no gradients, and the generators to the seed."""
        for part, training, attributes in self._attributes:
            vars(part).update(attributes)
            part.training = training
        for held, buffers in self._buffers:
            held.update(buffers)  # A call may have put others in their place.
        with torch.no_grad():
            for identity, (tensor, value) in self._tensors.items():
                if identity in self.put_back_elsewhere:
                    continue
                if tensor.is_inference():
                    with torch.inference_mode():
                        tensor.copy_(value)
                elif tensor.dtype != value.dtype or tensor.shape != value.shape:  # It was given other data.
                    tensor.data = value.to(tensor.device)
                elif not identical(tensor.detach().to("cpu"), value):
                    tensor.data.copy_(value)
        for tensor, _ in self._gradients:
            tensor.grad = None
        self._start.restore()

    def leave(self) -> None:
        """Put everything back as it was found, gradients and random generators included."""
        self.restore()
        for tensor, gradient in self._gradients:
            tensor.grad = gradient
        self._before.restore()

    def changed_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Buffers and plain tensor attributes whose values a run has changed."""
        for name, tensor in held_tensors(self._model):
            kept = self._tensors.get(id(tensor))
            if isinstance(tensor, torch.nn.Parameter):
                continue
            if kept is None or not identical(tensor.detach().to("cpu"), kept[1]):
                yield name, tensor


def held_tensors(model: Callable[..., Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, buffers and tensors that are plain attributes of a module, with their names; of a function those that
    its closure and its globals lead to.
    """
    if not isinstance(model, torch.nn.Module):
        reached = ((name, value) for name, value in reached_values(model) if isinstance(value, torch.Tensor))
        yield from ((name, value) for name, value in reached if value.device.type != "meta")
        return
    for name, part in model.named_modules():
        for held in (part._parameters, part._buffers, vars(part)):
            for key, value in held.items():
                if isinstance(value, torch.Tensor) and value.device.type != "meta":
                    yield f"{name}.{key}".lstrip("."), value


def random_position() -> tuple[Any, ...]:
    """Where the generators of torch, Python and NumPy stand: equal before and after what draws no random number."""
    now = RandomState.now()
    devices = tuple(state.numpy().tobytes() for states in now.devices.values() for state in states)
    numpy = () if now.numpy is None else (now.numpy[1].tobytes(), *now.numpy[2:])
    return (now.cpu.numpy().tobytes(), now.python, numpy, *devices)


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether they are known to be the same bit by bit: for large tensors this takes less than half the time."""
    if one.numel() < _LARGE or not (one.is_contiguous() and other.is_contiguous()):
        return False
    try:
        return bool(torch.equal(one.flatten().view(torch.int64), other.flatten().view(torch.int64)))
    except RuntimeError:  # Their number of bytes, or their place in a storage, is not one of whole int64.
        return False


def identical(one: torch.Tensor, other: torch.Tensor, *, signs: bool = False) -> bool:
    """Whether two tensors hold the same, NaN at the same places included. With `signs` 0.0 and -0.0 differ."""
    if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
        return False
    if one.layout is not torch.strided:
        one, other = one.to_dense(), other.to_dense()
    if _same_bits(one, other):
        return True
    same = torch.equal(one, other) or (
        one.is_floating_point() and bool(torch.all((one == other) | (one.isnan() & other.isnan())))
    )
    return same and (not signs or _same_signs(one, other))


def _same_signs(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether equal tensors have zeros of the same sign."""
    if one.is_complex():
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    if not one.is_floating_point():
        return True
    if one.element_size() == 1:  # Few operations take a float of 8 bits.
        one, other = one.float(), other.float()
    return bool(torch.all((torch.signbit(one) == torch.signbit(other)) | one.isnan()))
