"""What surrounds a call: grad, inference and autocast modes, and the states of the random generators."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

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
            tuple((kind, torch.get_autocast_dtype(kind)) for kind in _AUTOCAST_DEVICES if _autocasts(kind)),
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
                if kind in wanted or _autocasts(kind):
                    dtype = wanted.get(kind)
                    stack.enter_context(
                        torch.autocast(kind, dtype, enabled=kind in wanted, cache_enabled=self.autocast_cache)
                    )
            torch.set_default_dtype(self.default_dtype)
            stack.callback(torch.set_default_dtype, before)
            yield


def _autocasts(kind: str) -> bool:
    return bool(torch.is_autocast_enabled(kind))


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
