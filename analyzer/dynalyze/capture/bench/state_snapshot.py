"""The state that each run of the accuracy test starts from: parameters, buffers, attributes, random generators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from dynalyze.capture.bench.compare import identical
from dynalyze.capture.bench.contracts import reached_values
from dynalyze.capture.bench.workload import seed as set_seed
from dynalyze.capture.call_context import RandomState
from dynalyze.capture.fixing.object_state import HeldState

_MOST_COPIED = 1 << 30  # Bytes of parameters: a copy of more may not find room.
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.Tensor)


class StateSnapshot:
    """A snapshot of a model or a function and of the random generators, to begin each run alike.

    Copies lie in host memory. Of the other attributes of modules, numbers, strings and tensors are kept. `held` is all
    else that calls can change: objects, containers and their own random generators, those that the model, what is
    `given` to its calls by reference, and globals of their functions lead to. Without `objects` somebody else holds it.
    Without `parameters` their values are left out, where nothing changes them and two copies are too much.
    """

    def __init__(
        self, model: Callable[..., Any], seed: int, given: Iterable[Any] = (), *, objects: bool = True,
        parameters: bool = True,
    ) -> None:  # fmt: skip
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
        self._at_start: dict[int, torch.Tensor] = {}
        self._gradients = [(t, t.grad) for t in held.values() if t.is_leaf]
        self.put_back_elsewhere: set[int] = set()
        """Tensors, by id, that somebody else compares and puts back."""
        self.held = HeldState(besides=held, structure=False)
        if objects:
            self.held.add("", model, own=True)
            for each in given:
                self.held.add("input", each)
        set_seed(seed)
        self._start = RandomState.now()

    def restore(self) -> None:
        """Bring everything to where it was, with no gradients, and the generators to the seed."""
        self.held.restore()
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

    def mark_start(self) -> None:
        """A run begins now, with buffers that its first call may have put back by itself: what they were may as well be
        what a run left.
        """
        self._at_start = {}
        self._at_start = {id(tensor): tensor.detach().to("cpu", copy=True) for _, tensor in self.changed_buffers()}

    def changed_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Buffers and plain tensor attributes whose values a run has changed since it began."""
        for name, tensor in held_tensors(self._model):
            if isinstance(tensor, torch.nn.Parameter):
                continue
            before = self._at_start.get(id(tensor))
            if before is None and id(tensor) in self._tensors:
                before = self._tensors[id(tensor)][1]
            if before is None or not identical(tensor.detach().to("cpu"), before):
                yield name, tensor


@contextlib.contextmanager
def left_as_found(*models: Callable[..., Any], given: Iterable[Any] = ()) -> Iterator[None]:
    """Make calls again in the program's own process, which may still save its model when it ends: it is then as it was,
    but for parameters above _MOST_COPIED, which a forward seldom writes into. Random generators too."""
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        for model in models:
            size = sum(each.nbytes for _, each in held_tensors(model) if isinstance(each, torch.nn.Parameter))
            stack.callback(StateSnapshot(model, 0, given, parameters=size <= _MOST_COPIED).leave)
        yield


def held_tensors(model: Callable[..., Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, buffers and tensor attributes of a module by name; of a function what it reaches."""
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
