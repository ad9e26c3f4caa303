"""Dimensions that were marked dynamic and that the code made constants: torch refuses to compile that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from dynalyze.report import Compilation, ForcedSize, Report
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


def lines(report: Report, compilation: Compilation, forced: list[Size]) -> list[ForcedSize]:
    """The facts about the lines that made constants of these dimensions in this compile."""
    names = {None, *map(str, forced)}  # A report without source does not name them.
    return [
        size
        for size in report.forced_sizes
        if size.refused and compilation.compile_id in size.compile_ids and _written(size.source) in names
    ]


def _written(source: str | None) -> str | None:
    return as_written(source) if source is not None else None


def advice(forced: list[Size], told: list[ForcedSize]) -> str:
    """How to let the dimension vary, or to allow the constant."""
    maybe = ", ".join(f"`torch._dynamo.maybe_mark_dynamic({size.tensor}, {size.dimension})`" for size in forced)
    places = list(dict.fromkeys(f"{Path(size.location.file).name}:{size.location.line}" for size in told))
    if not places:
        return (
            "Look for what fixes the size: a comparison with a number, or a tensor of fixed size that it meets. torch "
            f"prints that line under User stack. Or allow the constant: {maybe}."
        )
    values = " and ".join(
        dict.fromkeys(f"`{_written(size.source)} == {size.values[0]}`" for size in told if size.source and size.values)
    )
    needs = f" It holds only for {values}." if values else ""
    return (
        f"Change {' and '.join(places)} so that it takes any size.{needs} It compares with a number, counts in Python, "
        f"or meets a tensor of fixed size. Or allow the constant: {maybe}."
    )
