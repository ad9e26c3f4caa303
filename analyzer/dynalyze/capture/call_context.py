"""What a call meets besides its inputs: modes, random generators, training flags and buffers."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

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
class ModuleState:
    """Parameters are not part of it: a program that trains changes them between any two calls."""

    parts: list[torch.nn.Module]
    training: list[bool]
    buffers: list[tuple[torch.nn.Module, Frozen]]

    def restore(self) -> None:
        for part, training in zip(self.parts, self.training, strict=True):
            if part.training is not training:
                part.training = training
        for owner, frozen in self.buffers:
            for name, value in frozen.thaw().items():
                _set_buffer(owner, name, value)


class ModuleStates:
    """Takes the states of modules, sharing the copies of buffers that have not changed in between."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[int, list[torch.nn.Module]]] = {}
        # The buffers of each submodule when last copied, and their versions; holding them keeps their ids from being
        # used again.
        self._seen: dict[int, tuple[list[torch.Tensor], list[int], Frozen]] = {}

    def take(self, target: Any, budget: int, inputs: Any = ()) -> tuple[ModuleState, int]:
        """The state now, and how many bytes were copied for it.

        A function has the state of all modules that it, or its `inputs`, lead to. Raises CannotClone where the buffers
        cannot be copied, or not within the budget.
        """
        roots = [target] if isinstance(target, torch.nn.Module) else reachable_modules((target, inputs))
        parts = list(dict.fromkeys(part for module in roots for part in self._parts_of(module)))
        spent = 0
        buffers = []
        for part in parts:
            if part._buffers:
                frozen, new = self._buffers_of(part, budget - spent)
                buffers.append((part, frozen))
                spent += new
        return ModuleState(parts, [part.training for part in parts], buffers), spent

    def _parts_of(self, module: torch.nn.Module) -> list[torch.nn.Module]:
        known = self._parts.get(id(module))
        if known is None or known[0] != _count_children(known[1]):
            parts = list(module.modules())
            known = self._parts[id(module)] = (_count_children(parts), parts)
        return known[1]

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
            seen_tensors, seen_versions, frozen = seen
            if seen_versions == versions and list(map(id, seen_tensors)) == list(map(id, tensors)):
                return frozen, 0
        # All of them: the running statistics of BatchNorm change without a new version, its counter does not.
        frozen = freeze(held, budget)
        self._seen[id(part)] = tensors, versions, frozen
        return frozen, frozen.nbytes


def version_of(tensor: torch.Tensor) -> int:
    """How often it was written to; -1 of an inference tensor, which does not count."""
    return -1 if tensor.is_inference() else tensor._version


def _count_children(parts: list[torch.nn.Module]) -> int:
    return sum([len(part._modules) for part in parts])


def _set_buffer(owner: torch.nn.Module, name: str, value: torch.Tensor) -> None:
    """In place where that is possible, so that the compiled code meets the tensor it knows."""
    current = owner._buffers.get(name)
    if (
        isinstance(current, torch.Tensor)
        and current.shape == value.shape
        and current.layout is torch.strided
        and not current.is_inference()
    ):
        with torch.no_grad():
            current.copy_(value)
    else:
        owner._buffers[name] = value
