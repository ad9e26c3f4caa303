"""Other sizes for the inputs of a call: each tensor that has a named size is made anew, as large as asked for.

Values are those of the example, cut off or repeated from their beginning, so that token ids stay token ids and a mask
stays a mask. Dtype, device, order of strides and requires_grad stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dynalyze.capture.inputs import Inputs, Misuse, signature_of


class Dim(NamedTuple):
    """Which axis of which input has the size called `name`; `input` is a position or a keyword name."""

    name: str
    input: str
    axis: int

    def __str__(self) -> str:
        return f"--dim {self.name}={self.input}:{self.axis}"


def resized(
    calls: Sequence[Inputs], dims: Sequence[Dim], shape: Mapping[str, int], target: Callable[..., Any]
) -> list[Inputs]:
    """The calls with the sizes of `shape` where `dims` has them; calls without such an input stay as they are.

    Names in `shape` that no dim has are not looked at. Raises Misuse where no call has such an input, or it is nothing
    that can be resized.
    """
    made = list(calls)
    for dim in dims:
        if dim.name not in shape:
            continue
        places = [_place(call, dim, target) for call in made]
        if all(place is None for place in places):
            count = len(made[0].args)
            positions = ["position 0"] if count == 1 else [f"positions 0 to {count - 1}"] if count else []
            there = ", ".join([*positions, *made[0].kwargs]) or "no inputs at all"
            raise Misuse(f"{dim}: the target is called without such an input; it has {there}")
        made = [_replaced(call, place, dim, shape[dim.name]) for call, place in zip(made, places, strict=True)]
    return made


def fit(tensor: Any, axis: int, size: int) -> Any:
    """A tensor of the same kind that has this size along `axis`."""
    import torch

    have = tensor.shape[axis]
    with torch.no_grad():
        index = torch.arange(size, device=tensor.device) % have
        values = tensor.detach().index_select(axis, index)
        order = sorted(range(tensor.dim()), key=lambda each: -tensor.stride(each))
        dense = values.permute(order).contiguous()
        made = dense.permute([order.index(each) for each in range(tensor.dim())])
    return made.requires_grad_(tensor.requires_grad)


def _place(call: Inputs, dim: Dim, target: Callable[..., Any]) -> int | str | None:
    """Where the input stands among the arguments of a call; None where it is not given."""
    if dim.input.isdecimal():
        position = int(dim.input)
        return position if position < len(call.args) else None
    if dim.input in call.kwargs:
        return dim.input
    try:
        parameters = signature_of(target).parameters.values()
    except (TypeError, ValueError):
        return None
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return names.index(dim.input) if dim.input in names[: len(call.args)] else None


def _replaced(call: Inputs, place: int | str | None, dim: Dim, size: int) -> Inputs:
    if place is None:
        return call
    args, kwargs = list(call.args), dict(call.kwargs)
    if isinstance(place, int):
        args[place] = _fitted(args[place], dim, size)
    else:
        kwargs[place] = _fitted(kwargs[place], dim, size)
    return Inputs(tuple(args), kwargs)


def _fitted(value: Any, dim: Dim, size: int) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        raise Misuse(f"{dim}: this input is no tensor, it is of type {type(value).__name__}")
    if not -value.dim() <= dim.axis < value.dim():
        raise Misuse(f"{dim}: this input has no axis {dim.axis}, its shape is {list(value.shape)}")
    if value.layout is not torch.strided or value.is_nested:
        raise Misuse(f"{dim}: only dense tensors can be resized")
    if value.shape[dim.axis] == 0:
        raise Misuse(f"{dim}: this axis of the example is empty, so there are no values to repeat")
    return value if value.shape[dim.axis] == size else fit(value, dim.axis, size)
