"""What a module of the program holds beside functions: tensors, configurations, tables of numbers and texts.

A program sets these after it has imported the module, as `config.CFG.heads = 8`; what holds one has to see that too,
so that containers and objects are written into and not exchanged.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import torch

from dynalyze.capture.assigned_values import is_plain_value
from dynalyze.capture.nested_values import has_finalizer, is_plain_object

_MOST_VALUES = 300


def is_content(value: Any) -> bool:
    """Whether it is a plain value, a tensor, or a small container or plain object with nothing else in it."""
    return _is_content(value, [_MOST_VALUES])


def _is_content(value: Any, left: list[int]) -> bool:
    left[0] -= 1
    if left[0] < 0:
        return False
    if is_plain_value(value) or type(value) is torch.Tensor:
        return True
    if type(value) in (list, tuple):
        return all(_is_content(each, left) for each in value)
    held = _entries(value)
    return held is not None and all(is_plain_value(key) and _is_content(each, left) for key, each in held.items())


def same_content(one: Any, other: Any) -> bool:
    """Whether two values are of one type and equal; numbers that are none are equal too."""
    if type(one) is not type(other):
        return False
    if type(one) is torch.Tensor:
        return bool(one.dtype == other.dtype and one.device == other.device and torch.equal(one, other))
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(same_content, one, other))
    held, wanted = _entries(one), _entries(other)
    if held is None or wanted is None:
        return bool(one == other or one != one)
    return held.keys() == wanted.keys() and all(same_content(held[key], wanted[key]) for key in held)


def written_into(held: Any, value: Any) -> bool:
    """Give a list, dictionary or object the content of another of its type; False where that cannot be."""
    if type(held) is not type(value):
        return False
    if type(held) is list:
        held[:] = value
        return True
    own, wanted = _entries(held), _entries(value)
    if own is None or wanted is None:
        return False
    own.clear()
    own.update(wanted)
    return True


def _entries(value: Any) -> MutableMapping[Any, Any] | None:
    """What a dictionary or plain object holds, by key or attribute; None for all else."""
    if type(value) is dict:
        return value
    is_config = is_plain_object(value) and hasattr(value, "__dict__") and not has_finalizer(value)
    return vars(value) if is_config else None
