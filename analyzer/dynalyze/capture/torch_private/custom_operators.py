"""What a program registered with `torch.library.custom_op`, taken apart so that another process can register the same.

Run on torch 2.13. Of a version that keeps its parts elsewhere nothing is known here: then such an operator cannot
travel, and the recording says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dynalyze.capture.torch_private import compiled_calls

_registered: dict[str, Any] = {}


@dataclass(frozen=True)
class Registration:
    """The arguments of the registering calls; `kernels` are by type of device."""

    name: str
    schema: str
    tags: tuple[Any, ...]
    function: Callable[..., Any]
    kernels: dict[str, Callable[..., Any]]
    fake: Callable[..., Any] | None
    backward: Callable[..., Any] | None
    setup_context: Callable[..., Any] | None

    def register(self) -> Any:
        """The operator, as torch's own decorator returns it; one in a process, for a second one of its name
        takes the first from the dispatcher.
        """
        if (known := _registered.get(self.name)) is not None:
            return known
        operator = getattr(torch.library, "custom_op")  # noqa: B009 - the older stubs lack it.
        written = _written_by(self.schema)
        made = operator(self.name, self.function, mutates_args=written, schema=self.schema, tags=self.tags)
        for device, kernel in self.kernels.items():
            made.register_kernel(device)(kernel)
        if self.fake is not None:
            made.register_fake(self.fake)
        if self.backward is not None:
            made.register_autograd(self.backward, setup_context=self.setup_context)
        _registered[self.name] = made
        return made


def registration_of(value: Any) -> Registration | None:
    """How an operator was registered; None for everything else, and where this torch does not tell."""
    home = type(value)
    if home.__name__ != "CustomOpDef" or home.__module__.partition(".")[0] != "torch":
        return None
    try:
        kernels = {device: _inner(kernel) for device, kernel in value._backend_fns.items() if device is not None}
        return Registration(
            f"{value._namespace}::{value._name}", value._schema, tuple(value._tags), value._init_fn, kernels,
            value._abstract_fn, value._backward_fn, value._setup_context_fn,
        )  # fmt: skip
    except AttributeError:
        return None


def _inner(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The user's function below what torch puts around it."""
    around = inspect.unwrap(compiled_calls.original_of(kernel))
    found = inspect.getclosurevars(around).nonlocals.get("fn", kernel)
    return found if callable(found) else kernel


def _written_by(schema: str) -> tuple[str, ...]:
    """The arguments that a schema says are written to."""
    parsed = torch._C.parse_schema(schema if "::" in schema or not schema.startswith("(") else f"operator{schema}")
    return tuple(each.name for each in parsed.arguments if each.alias_info is not None and each.alias_info.is_write)
