"""Dimensions that were marked dynamic and that the code made constants: torch refuses to compile that."""

from __future__ import annotations

import re
from typing import NamedTuple

from dynalyze.rules.recompile_advice.source import as_written

_VIOLATED = re.compile(r"Constraints violated \((.+?)\)!")
_SIZE = re.compile(r"L\['(\w+)'\]([^\s,]*?)\.size\(\)\[(\d+)\]")


class Size(NamedTuple):
    """One dimension of a tensor, as the user writes both."""

    tensor: str
    dimension: str

    def __str__(self) -> str:
        return f"{self.tensor}.size()[{self.dimension}]"


def forced_sizes(reason: str) -> list[Size]:
    """The dimensions concerned, from torch's own words; none for another failure."""
    found = _VIOLATED.match(reason)
    sizes = (Size(as_written(m[1] + m[2]), m[3]) for m in _SIZE.finditer(found[1])) if found else ()
    return list(dict.fromkeys(sizes))


def title(function: str, forced: list[Size]) -> str:
    """What happened, with the sizes as the user writes them."""
    sizes = ", ".join(f"`{size}`" for size in forced)
    return f"{function} makes a constant of a dimension that is marked dynamic: {sizes}"


def advice(forced: list[Size]) -> str:
    """How to let the dimension vary, or to allow the constant."""
    maybe = ", ".join(f"`torch._dynamo.maybe_mark_dynamic({size.tensor}, {size.dimension})`" for size in forced)
    return (
        "Look for what fixes the size: a comparison with a number, or a tensor of fixed size that it meets. torch "
        f"prints that line under User stack. Or allow the constant: {maybe}."
    )
