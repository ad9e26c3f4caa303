"""The oracle of the accuracy test: the same model and inputs, computed in fp64 (complex128 for complex numbers).

The model is copied, its parameters and buffers in fp64 from the start. At each call the inputs are raised, and what the
forward asks to be a narrower floating type (`x.float()`, `dtype=torch.bfloat16`) stays fp64 too. Autocast is off.
Random numbers are drawn in the type that eager draws them in, so that dropout has eager's masks.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dynalyze.capture.bench.failures import kind_of, one_line
from dynalyze.capture.bench.state_snapshot import held_tensors
from dynalyze.capture.call_context import Modes
from dynalyze.capture.nested_values import children, container_base, is_plain_object
from dynalyze.capture.torch_private import numerics

_RAISED = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
_NARROWING = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}
_REINTERPRETING = {torch.Tensor.view, torch.Tensor.view_as}


class CannotCopy(Exception):
    """There is no fp64 copy of the model; the text says why."""


def raised(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in fp64 or complex128; integers, bools and fp64 itself stay."""
    return tensor.to(_RAISED.get(tensor.dtype, tensor.dtype))


def fp64_model(model: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a module in fp64; a function itself. Raises CannotCopy."""
    if not isinstance(model, torch.nn.Module):
        return model
    memo: dict[int, torch.Tensor] = {}
    try:
        for tensor in _tensors_of(model):
            copied = tensor.detach().to(_RAISED.get(tensor.dtype, tensor.dtype), copy=True)
            copied = torch.nn.Parameter(copied, False) if isinstance(tensor, torch.nn.Parameter) else copied
            memo[id(tensor)] = copied.requires_grad_(tensor.requires_grad)
        made: Callable[..., Any] = copy.deepcopy(model, memo)
    except Exception as error:
        if kind_of(error, "internal") == "out_of_memory":
            raise
        raise CannotCopy(one_line(error)) from error
    return made


def size_in_fp64(model: Callable[..., Any]) -> int:
    return sum(tensor.numel() * _RAISED.get(tensor.dtype, tensor.dtype).itemsize for tensor in _tensors_of(model))


class Fp64Reference:
    """Calls `fp64_model(model)` with inputs that went through `to_fp64`.

    `draws` says that the model draws random numbers. `lift` False leaves the types that the forward itself asks for.
    """

    def __init__(self, model: Callable[..., Any], *, draws: bool, lift: bool = True) -> None:
        self.model = fp64_model(model)
        parts = (each.modules() if isinstance(each, torch.nn.Module) else () for each in (model, self.model))
        self._pairs = list(zip(*parts, strict=True))
        # The floating type of most parameters, which is the type that dropout is applied in.
        parameters = model.parameters() if isinstance(model, torch.nn.Module) else ()
        counts = Counter(each.dtype for each in parameters if each.is_floating_point())
        self._usual = counts.most_common(1)[0][0] if counts else None
        self._draws = draws
        self._lift = lift

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for original, copied in self._pairs:
            copied.training = original.training  # It may be changed between calls.
        now = Modes.now()
        with contextlib.ExitStack() as stack:
            stack.enter_context(replace(now, autocast=(), default_dtype=torch.float64).applied())
            if self._draws:
                draw = functools.partial(_drawn, self._usual or now.default_dtype, now.default_dtype)
                stack.enter_context(numerics.watched_operations(draw))
            if self._lift:
                stack.enter_context(_Lifted())
            return self.model(*args, **kwargs)


def to_fp64(value: Any) -> Any:
    """A nested value with all of its tensors raised.

    Lists, dicts, caches and other objects are changed in place: whoever made them goes on using them. Modules,
    parameters and what is no floating tensor stay.
    """
    memo: dict[int, tuple[Any, Any]] = {}  # With the original, so that its id is not used again.

    def raise_all(value: Any) -> Any:
        if id(value) in memo:
            return memo[id(value)][1]
        made = value
        if isinstance(value, torch.Tensor):
            if value.dtype in _RAISED and not isinstance(value, torch.nn.Parameter):
                made = raised(value.detach()).requires_grad_(value.requires_grad)
        elif isinstance(value, tuple):
            items = [raise_all(item) for item in value]
            try:
                made = tuple.__new__(type(value), items)
            except TypeError:  # A struct sequence, as torch.return_types.max.
                made = type(value)(items)
        elif not isinstance(value, (torch.nn.Module, torch.optim.Optimizer, set, frozenset)):
            if container_base(value) is None and not is_plain_object(value):
                return value
            memo[id(value)] = value, value  # It may hold itself.
            for key, item in list(children(value)):
                new = raise_all(item)
                if new is not item:
                    _put(value, key, new)
        memo[id(value)] = value, made
        return made

    return raise_all(value)


def _put(owner: Any, key: Any, value: Any) -> None:
    """Set an item, and the attribute of that name, below whatever the owner's class does when one is set."""
    base = container_base(owner)
    is_item = base is not None and (isinstance(key, int) or (issubclass(base, dict) and key in base.keys(owner)))
    if is_item:
        base.__setitem__(owner, key, value)
    if not is_item or (isinstance(key, str) and key in getattr(owner, "__dict__", {})):
        object.__setattr__(owner, key, value)


def _tensors_of(model: Callable[..., Any]) -> Iterable[torch.Tensor]:
    """Each tensor of the model once; a function has none."""
    return {id(tensor): tensor for _, tensor in held_tensors(model)}.values()


class _Lifted(TorchFunctionMode):  # type: ignore[misc]
    """Raises the floating types that the code of a model names."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def lifted(value: Any) -> Any:
            return _RAISED.get(value, value) if isinstance(value, torch.dtype) else value

        kwargs = kwargs or {}
        if func in _NARROWING:
            return torch.Tensor.double(args[0])
        if func in _REINTERPRETING:
            return func(*args, **kwargs)
        return func(*map(lifted, args), **{name: lifted(value) for name, value in kwargs.items()})


def _drawn(
    usual: torch.dtype, default: torch.dtype, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Draws random numbers in the type that eager draws them in, and raises them."""

    def lowered(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is torch.float64:
            return value.to(usual)
        return usual if value is torch.float64 else value

    if not numerics.draws_random_numbers(operation):
        return operation(*args, **kwargs)
    if operation is torch.ops.aten.native_dropout.default:
        value, share, train = args
        _, mask = operation(torch.ones_like(value, dtype=usual), share, train)
        return (value * mask / (1 - share) if share < 1 else value * mask), mask
    named = {name: lowered(value) for name, value in kwargs.items()}
    # The result has torch's default type where none is given, as for `rand` and not for `randint`.
    takes_default = any(a.name == "dtype" and a.default_value is None for a in operation._schema.arguments)
    if takes_default and not any(isinstance(value, torch.Tensor) for value in args):
        named["dtype"] = named.get("dtype") or default
    made = operation(*map(lowered, args), **named)
    if operation._schema.is_mutable and isinstance(args[0], torch.Tensor):
        return args[0].copy_(made)
    return raised(made) if isinstance(made, torch.Tensor) else made
