"""What a call meets besides its inputs: modes, random generators, training flags and buffers."""

from __future__ import annotations

import contextlib
import random
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from dynalyze.capture.assigned_values import AssignedValues, SetValues
from dynalyze.capture.clone import Frozen, freeze
from dynalyze.capture.nested_values import reachable_modules
from dynalyze.capture.torch_private.compiled_calls import no_dispatch, no_function, unobserved

_AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps")
_GENERATOR_DEVICES = ("cuda", "xpu")


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of a thread that change what a call computes or how it compiles."""

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    autocast_cache: bool
    default_dtype: torch.dtype

    @classmethod
    def now(cls) -> Modes:
        return cls(
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            tuple(
                (kind, torch.get_autocast_dtype(kind)) for kind in _AUTOCAST_DEVICES if torch.is_autocast_enabled(kind)
            ),
            torch.is_autocast_cache_enabled(),
            torch.get_default_dtype(),
        )

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Run what follows under these modes, whatever is on now."""
        before = torch.get_default_dtype()
        wanted = dict(self.autocast)
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.grad))
            for kind in _AUTOCAST_DEVICES:
                if kind in wanted or torch.is_autocast_enabled(kind):
                    dtype = wanted.get(kind)
                    stack.enter_context(
                        torch.autocast(kind, dtype, enabled=kind in wanted, cache_enabled=self.autocast_cache)
                    )
            torch.set_default_dtype(self.default_dtype)
            stack.callback(torch.set_default_dtype, before)
            yield


@dataclass(slots=True)
class RandomState:
    """Where the random generators stood: torch's on each device in use, Python's and NumPy's."""

    cpu: torch.Tensor
    devices: dict[str, list[torch.Tensor]]
    python: Any
    numpy: Any

    @classmethod
    def now(cls) -> RandomState:
        with no_function(), no_dispatch():
            devices = {
                kind: getattr(torch, kind).get_rng_state_all()
                for kind in _GENERATOR_DEVICES
                if getattr(torch, kind).is_initialized()
            }
            cpu = torch.get_rng_state()
        # A program that never touched numpy.random has not loaded it: importing numpy does not.
        numpy_random = sys.modules.get("numpy.random")
        return cls(cpu, devices, random.getstate(), numpy_random.get_state() if numpy_random else None)

    def restore(self) -> None:
        with unobserved():
            torch.set_rng_state(self.cpu)
            for kind, states in self.devices.items():
                getattr(torch, kind).set_rng_state_all(states)
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy.random"].set_state(self.numpy)


@dataclass(slots=True)
class PartState:
    """One module when a call began, without holding it: a program may let go of a model."""

    module: weakref.ref[torch.nn.Module]
    training: bool
    values: SetValues
    buffers: Frozen | None = None

    def restore(self) -> None:
        if (part := self.module()) is None:
            return
        if part.training is not self.training:
            part.training = self.training
        resized = False
        for name, value in self.buffers.thaw().items() if self.buffers is not None else ():
            resized |= _set_buffer(part, name, value)
        self.values.restore(part, every=resized)  # What was made in another size has that written down beside it.


@dataclass(slots=True)
class ModuleState:
    """The state of a module and of all its parts. Parameters are not in it: a program that trains changes them between
    any two calls.
    """

    states: list[PartState]

    @property
    def parts(self) -> list[torch.nn.Module]:
        return [part for each in self.states if (part := each.module()) is not None]

    def of(self, others: dict[int, torch.nn.Module]) -> ModuleState:
        """The same of the modules that stand in the place of these, by the ids of these."""

        def other(reference: weakref.ref[torch.nn.Module]) -> weakref.ref[torch.nn.Module]:
            part = reference()
            return reference if part is None else weakref.ref(others.get(id(part), part))

        return ModuleState([replace(each, module=other(each.module)) for each in self.states])

    def restore(self) -> None:
        for each in self.states:
            each.restore()


class ModuleStates:
    """Takes the states of modules, sharing the copies of buffers that have not changed in between."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[int, list[weakref.ref[torch.nn.Module]]]] = {}
        # The buffers of each submodule when last copied, their versions, and the copies.
        self._seen: dict[int, tuple[list[weakref.ref[torch.Tensor]], list[int], Frozen]] = {}
        self.set = AssignedValues()

    def take(self, target: Any, budget: int, inputs: Any = ()) -> tuple[ModuleState, int]:
        """The state now, and how many bytes were copied for it.

        A function has the state of all modules that it, or its `inputs`, lead to. Raises CannotClone where the buffers
        cannot be copied, or not within the budget.
        """
        roots = [target] if isinstance(target, torch.nn.Module) else reachable_modules((target, inputs))
        several = (part for module in roots for part in self._parts_of(module))
        references = self._parts_of(roots[0]) if len(roots) == 1 else list(dict.fromkeys(several))
        spent = 0
        states = []
        parts = [part for reference in references if (part := reference()) is not None]
        assert len(parts) == len(references), "their root is held by who calls it"
        for part, values in zip(parts, self.set.begin(parts), strict=True):
            state = PartState(weakref.ref(part), part.training, values)
            if part._buffers:
                state.buffers, new = self._buffers_of(part, budget - spent)
                spent += new
            states.append(state)
        return ModuleState(states), spent

    def forget_gone(self) -> None:
        """Drop what is kept for modules that are there no more."""
        for token in [token for token, (_, parts) in self._parts.items() if parts[0]() is None]:
            del self._parts[token]
        for token in [token for token, (tensors, *_) in self._seen.items() if all(each() is None for each in tensors)]:
            del self._seen[token]

    def _parts_of(self, module: torch.nn.Module) -> list[weakref.ref[torch.nn.Module]]:
        count, parts = self._parts.get(id(module), (-1, []))
        if not parts or parts[0]() is not module or count != _count_children(parts):
            parts = [weakref.ref(part) for part in module.modules()]
            self._parts[id(module)] = (_count_children(parts), parts)
        return parts

    def _buffers_of(self, part: torch.nn.Module, budget: int) -> tuple[Frozen, int]:
        lazy = torch.nn.parameter.UninitializedTensorMixin
        held = {
            name: item
            for name, item in part._buffers.items()
            if isinstance(item, torch.Tensor) and not isinstance(item, lazy)
        }
        tensors = list(held.values())
        versions = list(map(version_of, tensors))
        if -1 not in versions and (seen := self._seen.get(id(part))) is not None:
            references, seen_versions, frozen = seen
            if seen_versions == versions and [id(each()) for each in references] == list(map(id, tensors)):
                return frozen, 0
        # All of them: the running statistics of BatchNorm change without a new version, its counter does not.
        frozen = freeze(held, budget)
        self._seen[id(part)] = list(map(weakref.ref, tensors)), versions, frozen
        return frozen, frozen.nbytes


def version_of(tensor: torch.Tensor) -> int:
    """How often it was written to; -1 of an inference tensor, which does not count."""
    return -1 if tensor.is_inference() else tensor._version


def _count_children(parts: list[weakref.ref[torch.nn.Module]]) -> int:
    """-2 where one of them is gone."""
    living = [part for reference in parts if (part := reference()) is not None]
    return sum([len(part._modules) for part in living]) if len(living) == len(parts) else -2


def _set_buffer(owner: torch.nn.Module, name: str, value: torch.Tensor) -> bool:
    """In place where that is possible, so that the compiled code meets the tensor it knows. Returns whether one of
    another shape was there.
    """
    current = owner._buffers.get(name)
    if (
        isinstance(current, torch.Tensor)
        and current.shape == value.shape
        and current.layout is torch.strided
        and not current.is_inference()
    ):
        with torch.no_grad():
            current.copy_(value)
        return False
    owner._buffers[name] = value
    return not isinstance(current, torch.Tensor) or current.shape != value.shape
