"""Reads `--shapes` and `--dim`: the sizes that production sends, by name, and the inputs that have them.

    --shapes batch=1..8,sequence=128|512|2048     names with their values, separated by commas
    --shapes batch=1,4 --shapes sequence=128..512:128

A value is V, A..B or A..B:STEP, both ends included; several are separated by | or by a comma.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from dynalyze.capture.shapes import Dim
from dynalyze.text.errors import UsageError

Shape = tuple[tuple[str, int], ...]
"""One size for each name, in the order in which the names were given."""

MOST_SHAPES = 1000
_NAME = re.compile(r"[^\W\d]\w*")
_VALUE = re.compile(r"(?P<first>[0-9]{1,9})(?:\.\.(?P<last>[0-9]{1,9})(?::(?P<step>[0-9]{1,9}))?)?")
_INPUT = re.compile(r"(?P<input>[0-9]{1,3}|[^\W\d]\w*):(?P<axis>-?[0-9]{1,2})")
_SHAPES_EXAMPLE = "e.g. --shapes batch=1..8,sequence=128|512"
_DIM_EXAMPLE = "e.g. --dim batch=0:0 or --dim sequence=input_ids:1"


def read_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The distinct sizes of every name, in the order written. Raises UsageError for a text without names and values, a
    name given twice, or a size that is not a whole number above zero.
    """
    found: dict[str, list[int]] = {}
    for text in texts:
        for name, values in _named(text):
            if name in found:
                raise UsageError(f"--shapes {text}: {name} is given twice")
            found[name] = [size for value in values for size in _sizes(value, text)]
    return {name: tuple(dict.fromkeys(sizes)) for name, sizes in found.items()}


def read_dims(texts: Iterable[str]) -> tuple[Dim, ...]:
    """The axes of inputs that have named sizes. Raises UsageError for a text that is not NAME=INPUT:AXIS."""
    return tuple(dict.fromkeys(_dim(text) for text in texts))


def combinations(sizes: Mapping[str, Sequence[int]], most: int = MOST_SHAPES) -> list[Shape]:
    """Every combination of the sizes, the last name varying fastest. Raises UsageError above `most`."""
    count = 1
    for values in sizes.values():
        count *= len(values)
    if count > most:
        raise UsageError(f"--shapes asks for {count:,} combinations; at most {most:,} can be run")
    return [tuple(zip(sizes, values, strict=True)) for values in product(*sizes.values())]


def check_dims(sizes: Mapping[str, Sequence[int]], dims: Iterable[Dim]) -> None:
    """Raise UsageError for a name of `--dim` that `--shapes` does not have."""
    for dim in dims:
        if dim.name not in sizes:
            raise UsageError(f"{dim}: --shapes gives no sizes for {dim.name}; {_SHAPES_EXAMPLE}")


def _named(text: str) -> list[tuple[str, list[str]]]:
    """Names with their values as texts: after a comma comes another name, or another value of the same."""
    found: list[tuple[str, list[str]]] = []
    for part in text.split(","):
        name, equals, values = part.rpartition("=")
        if equals:
            if _NAME.fullmatch(name.strip()) is None:
                raise UsageError(f"--shapes {text}: {name.strip()!r} is no name; {_SHAPES_EXAMPLE}")
            found.append((name.strip(), []))
        elif not found:
            raise UsageError(f"--shapes {text}: give names with their sizes, {_SHAPES_EXAMPLE}")
        found[-1][1].extend(values.split("|"))
    return found


def _sizes(value: str, text: str) -> Iterable[int]:
    match = _VALUE.fullmatch(value.strip())
    if match is None:
        raise UsageError(f"--shapes {text}: {value.strip()!r} is no size; give 4, 1..8 or 128..512:128")
    first = int(match["first"])
    last, step = int(match["last"] or first), int(match["step"] or 1)
    if first == 0 or step == 0:
        raise UsageError(f"--shapes {text}: sizes and steps are whole numbers above zero")
    if last < first:
        raise UsageError(f"--shapes {text}: {value.strip()} ends before it begins")
    if (last - first) // step >= MOST_SHAPES:
        raise UsageError(f"--shapes {text}: {value.strip()} are over {MOST_SHAPES:,} sizes; give a step, A..B:STEP")
    return range(first, last + 1, step)


def _dim(text: str) -> Dim:
    name, _, rest = text.partition("=")
    match = _INPUT.fullmatch(rest.strip())
    if _NAME.fullmatch(name.strip()) is None or match is None:
        raise UsageError(f"--dim {text}: give NAME=INPUT:AXIS, {_DIM_EXAMPLE}")
    position = match["input"]
    return Dim(name.strip(), str(int(position)) if position.isdecimal() else position, int(match["axis"]))
