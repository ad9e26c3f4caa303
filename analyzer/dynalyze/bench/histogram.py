"""The shapes of production as a histogram: how many versions they compile, and which buckets would do instead.

A file has the shapes, each with how often it comes: a CSV with a column for each size (or one called `shape`) and
perhaps `count`; a log of one call a line, as JSON or with a shape in brackets; or a report.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from operator import mul
from typing import Any

from dynalyze.bench.buckets import choose, ladder
from dynalyze.bench.choice import Point
from dynalyze.capture.shapes import Dim
from dynalyze.launch.shape_options import Shape
from dynalyze.report import Report
from dynalyze.report.plans import ShapePlan, ShapeWay, SizeRange
from dynalyze.rules.recompile_advice.source import read_source
from dynalyze.text.amounts import count_of
from dynalyze.text.errors import UsageError
from dynalyze.text.visible import one_line
from dynalyze.words.bench import EAGER

Histogram = dict[Shape, int]
"""How often each shape comes, in the order in which they first came."""

RECOMPILE_LIMIT = 8
"""Versions of a function, in torch's default."""

_COUNTS = ("count", "calls", "n", "frequency")
_IN_BRACKETS = re.compile(r"[(\[]\s*(\d{1,9}(?:\s*[,x]\s*\d{1,9})*)\s*,?\s*[)\]]")
_BARE = re.compile(r"\d{1,9}(?:\s*[,x]\s*\d{1,9})*")
_NAMED = re.compile(r"\b([A-Za-z_]\w*)\s*[=:]\s*(\d{1,9})\b")
_PLACE = re.compile(r"(?P<input>.+):(?P<axis>\d+)")
_MOST_SHAPES = 10_000
_LARGEST, _MOST_CALLS = 10**9 - 1, 10**15
_MOST_RUNGS = 256
"""Combinations of buckets that are looked at where several sizes vary."""


def read_histogram(text: str, file: str, names: Sequence[str] = ()) -> Histogram:
    """The shapes of a CSV or a log; `names` are those of sizes that stand in a log as NAME=SIZE.

    Raises:
        UsageError: no shape is in it, or a line that should be one of a table is none.
    """
    lines = io.StringIO(text, newline=None).readlines()
    heads: list[str] = []
    with contextlib.suppress(csv.Error):
        heads = [head.strip() for head in next(csv.reader(lines[:1]), [])]
    is_table = len(heads) > 1 and all(re.fullmatch(r"[^\W\d][\w.\[\]']*(:\d+)?", head) for head in heads)
    found = _of_table(lines, file) if is_table else _of_log(lines, names, file)
    if not found:
        raise UsageError(
            f"{file}: no shapes in it; give a CSV with a column for each size and one called count, or a log with a "
            "shape in brackets on each line"
        )
    if len(found) > _MOST_SHAPES:
        raise UsageError(f"{file}: {len(found):,} shapes; at most {_MOST_SHAPES:,} are looked at")
    return found


def shapes_of_report(report: Report, file: str) -> Histogram:
    """The shapes that a report tells of: those of its warm-up or its measurements, else of its recompiles.

    Raises:
        UsageError: it tells of none.
    """
    shapes = [each.shape for each in report.warmup.calls] if report.warmup is not None else []
    shapes = shapes or [each.shape for each in report.measurements if each.shape and each.configuration == EAGER]
    shapes = shapes or _recompiled(report)
    found = _counted(((number, shape, 1) for number, shape in enumerate(shapes, 1)), file, "shape")
    if not found:
        raise UsageError(f"{file}: a report without shapes; one of audit --shapes has them, or one with recompiles")
    return found


def automatic_compiles(shapes: Iterable[Shape]) -> int:
    """How many versions torch compiles by itself when the shapes come in this order: the first is compiled as it is,
    and a size that changed since an earlier compile is dynamic from then on, unless it is 0 or 1.
    """
    versions: list[dict[str, int | None]] = []
    seen: dict[str, int] = {}
    changed: set[str] = set()
    for shape in map(dict, shapes):
        if any(all(_fits(size, version[name]) for name, size in shape.items()) for version in versions):
            continue
        changed |= {name for name, size in shape.items() if seen.setdefault(name, size) != size}
        versions.append({name: None if name in changed and size > 1 else size for name, size in shape.items()})
    return len(versions)


def dynamic_compiles(shapes: Iterable[Shape], *, marked: bool = False) -> int:
    """How many versions there are with every size dynamic from the start: 0 and 1 have versions of their own, and with
    dynamic=True sizes that are equal when it compiles have to stay so, unless they are `marked` with mark_dynamic.
    """
    versions: list[Shape] = []
    for shape in shapes:
        if not any(_serves(version, shape, marked) for version in versions):
            versions.append(shape)
    return len(versions)


def _serves(version: Shape, shape: Shape, marked: bool) -> bool:
    sizes = [(known, size) for (_, known), (_, size) in zip(version, shape, strict=True)]
    if any(known != size and min(known, size) < 2 for known, size in sizes):
        return False
    return marked or all(one[1] == other[1] for one, other in combinations(sizes, 2) if one[0] == other[0] > 1)


def versions_of(histogram: Histogram, names: Iterable[str]) -> dict[str, int]:
    """The compiles that each way of compiling needs for the shapes, by its name."""
    automatic = automatic_compiles(histogram)
    kinds = {
        "dynamic=on": dynamic_compiles(histogram),
        "dynamic=mark": dynamic_compiles(histogram, marked=True),
        "dynamic=off": len(histogram),
    }
    return {name: next((kinds[part] for part in name.split("+") if part in kinds), automatic) for name in names}


def shape_plan(histogram: Histogram, points: Sequence[Point], dims: Sequence[Dim] = (), calls: int = 1) -> ShapePlan:
    """What there is to do about the shapes, by the points that were measured, with so many calls in a pass."""
    names = list(dict.fromkeys(name for shape in histogram for name, _ in shape))
    sizes = {name: sorted({dict(shape)[name] for shape in histogram if name in dict(shape)}) for name in names}
    varying = {name: SizeRange(each[0], each[-1]) for name, each in sizes.items() if len(each) > 1}
    plan = ShapePlan(sum(histogram.values()), len(histogram), varying)
    cost = _Cost.of(points, calls)
    plan.ways = [
        ShapeWay("automatic", automatic_compiles(histogram)),
        ShapeWay("dynamic", dynamic_compiles(histogram, marked=True)),
        ShapeWay("static", len(histogram)),
    ]
    if varying:
        plan.ways.append(_buckets(histogram, list(varying), cost))
    if cost is not None:
        for way in plan.ways:
            way.total = cost.total(way, plan.calls)
        plan.best = min(plan.ways, key=lambda way: (way.total or 0.0, way.compiles)).way
    plan.lines, plan.sources = _lines(varying, dims)
    return plan


@dataclass(frozen=True)
class _Cost:
    """Seconds of a compile beyond the calls in it, and of a call, with fixed sizes and with dynamic ones.

    A call of the mean size is taken to be as long as the measured one, and a padded one longer by its elements.
    """

    compile: float
    call: float
    dynamic_compile: float
    dynamic_call: float

    @classmethod
    def of(cls, points: Sequence[Point], calls: int) -> _Cost | None:
        """By the whole model, else by whatever is fastest; None where nothing compiled was measured."""
        compiled = {point.name: point for point in points if point.name != EAGER}
        if not compiled:
            return None
        dynamic = compiled.get("dynamic=on")
        fixed = [point for point in compiled.values() if point is not dynamic] or list(compiled.values())
        whole = compiled.get("default") or min(fixed, key=lambda point: point.steady)
        one, other = ((_compile(each), each.steady / calls) for each in (whole, dynamic or whole))
        return cls(*one, *other)

    def total(self, way: ShapeWay, calls: int) -> float:
        if way.way in ("automatic", "dynamic"):
            return way.compiles * self.dynamic_compile + calls * self.dynamic_call
        return way.compiles * self.compile + calls * self.call * (1 + way.padding)


def _compile(point: Point) -> float:
    """Seconds of one start beyond as many steady passes."""
    return max(0.0, math.fsum(point.first) - len(point.first) * point.steady)


def _buckets(histogram: Histogram, names: list[str], cost: _Cost | None) -> ShapeWay:
    """The buckets of the least cost; without any cost the fewest whose padding stays below a quarter."""
    counts: dict[str, dict[int, int]] = {name: {} for name in names}
    for shape, count in histogram.items():
        for name, size in shape:
            if name in counts:
                counts[name][size] = counts[name].get(size, 0) + count
    if cost is None:
        chosen = choose({name: list(each) for name, each in counts.items()}, RECOMPILE_LIMIT)
        (way,) = _bucket_ways(histogram, names, [[tuple(chosen.sizes[name])] for name in names])
        return way
    most = max(2, math.floor(_MOST_RUNGS ** (1 / len(names))))
    ladders = [[buckets for _, buckets in ladder(each, most)] for each in counts.values()]
    calls = sum(histogram.values())
    return min(_bucket_ways(histogram, names, ladders), key=lambda way: (cost.total(way, calls), way.compiles))


def _bucket_ways(
    histogram: Histogram, names: Sequence[str], ladders: Sequence[Sequence[tuple[int, ...]]]
) -> Iterator[ShapeWay]:
    """Every choice of buckets, one for each of the names, with what it pads."""
    shapes = list(map(dict, histogram))
    sizes = [[shape[name] for shape in shapes] for name in names]
    rest = [
        count * math.prod(size for name, size in shape if name not in names) for shape, count in histogram.items()
    ]  # fmt: skip
    exact = _elements(rest, sizes)
    columns = [
        [(buckets, [buckets[bisect_left(buckets, size)] for size in column]) for buckets in rungs]
        for rungs, column in zip(ladders, sizes, strict=True)
    ]
    for each in product(*columns):
        padded = [column for _, column in each]
        padding = _elements(rest, padded) / exact - 1 if exact else 0.0
        buckets = {name: list(own) for name, (own, _) in zip(names, each, strict=True)}
        yield ShapeWay("buckets", len(set(zip(*padded, strict=True))), padding, buckets=buckets)


def _elements(weights: list[int], columns: Sequence[list[int]]) -> int:
    """The elements of all calls, whose sizes stand in columns."""
    products = weights
    for column in columns:
        products = list(map(mul, products, column))
    return sum(products)


def _fits(size: int, known: int | None) -> bool:
    return size == known if known is not None else size > 1


Row = tuple[int, Mapping[str, int], int]
"""The number of a line, the sizes in it, and how often they come."""


def _counted(rows: Iterable[Row], file: str, where: str = "line") -> Histogram:
    """Raises UsageError where a row has other sizes than the first, or one that no tensor has."""
    found: Histogram = {}
    first: tuple[int, tuple[str, ...]] | None = None
    for number, shape, count in rows:
        if not shape or count == 0:
            continue
        names = tuple(shape)
        first = first or (number, names)
        if set(names) != set(first[1]):
            raise UsageError(
                f"{file}:{number}: {_sizes(names)}, where {where} {first[0]} has {_sizes(first[1])}: all shapes need "
                "the same; give each kind a file of its own"
            )
        key = tuple((name, shape[name]) for name in first[1])
        if count < 0 or count > _MOST_CALLS or not all(0 <= size <= _LARGEST for _, size in key):
            raise UsageError(f"{file}:{number}: a size or a count is out of range")
        found[key] = found.get(key, 0) + count
    return found


def _sizes(names: Sequence[str]) -> str:
    numbered = all(name.isdecimal() for name in names)
    return count_of(len(names), "size") if numbered else f"the sizes {', '.join(map(one_line, names))}"


def _of_table(lines: list[str], file: str) -> Histogram:
    rows = csv.DictReader(lines, skipinitialspace=True)
    found: list[Row] = []
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise UsageError(f"{file}:{rows.line_num + 1}: no row of a CSV: {error}") from None
        if row is None:
            return _counted(found, file, "row")
        try:
            values = {head.strip(): (value or "").strip() for head, value in row.items() if head is not None}
            counts = [int(values.pop(head)) for head in list(values) if head.lower() in _COUNTS]
            shape: dict[str, int] = {}
            for head, value in values.items():
                shape |= _axes(value) if head.lower() == "shape" else {head: int(value)}
        except ValueError as error:
            raise UsageError(f"{file}:{rows.line_num}: a size or a count is no whole number: {error}") from None
        found.append((rows.line_num, shape, counts[0] if counts else 1))


def _of_log(lines: Iterable[str], names: Sequence[str], file: str) -> Histogram:
    found: list[Row] = []
    for number, line in enumerate(lines, 1):
        shape = _of_json(line) if line.lstrip().startswith("{") else {}
        named = dict(_NAMED.findall(line))
        if not shape and names and all(name in named for name in names):
            shape = {name: int(named[name]) for name in names}
        if not shape and (bracketed := _IN_BRACKETS.search(line)) is not None:
            shape = _axes(bracketed[1])
        count = shape.pop("count", 1)
        found.append((number, shape, count))
    return _counted(found, file)


def _of_json(line: str) -> dict[str, int]:
    try:
        fields: Any = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    fields = fields if isinstance(fields, dict) else {}
    sizes = {name: value for name, value in fields.items() if type(value) is int and value >= 0}
    shape = fields.get("shape")
    if isinstance(shape, list) and shape and all(type(each) is int for each in shape):
        return {**{str(axis): size for axis, size in enumerate(shape)}, "count": sizes.get("count", 1)}
    return sizes


def _axes(text: str) -> dict[str, int]:
    """The sizes of "8x128", "(8, 128)" by their axes."""
    bare = text.strip("()[] ,")
    if _BARE.fullmatch(bare) is None:
        raise ValueError(f"{text!r}")
    return {str(axis): int(size) for axis, size in enumerate(re.split(r"\s*[,x]\s*", bare))}


def _recompiled(report: Report) -> list[dict[str, int]]:
    """The sizes that recompiles saw change, by input and axis."""
    changes: list[tuple[str, int, int]] = []
    for each in report.recompiles:
        source, values = read_source(each), (each.expected or "", each.actual or "")
        if each.cause == "shape" and source.dimension is not None and all(value.isdecimal() for value in values):
            changes.append((f"{source.argument}:{source.dimension}", int(values[0]), int(values[1])))
    before: dict[str, int] = {}
    for name, expected, _ in changes:
        before.setdefault(name, expected)
    return [before, *({**before, name: actual} for name, _, actual in changes)] if changes else []


def _lines(varying: Mapping[str, SizeRange], dims: Sequence[Dim]) -> tuple[str, str]:
    """The lines that mark the varying sizes dynamic, and the list for the environment."""
    places = {dim.name: (dim.input, dim.axis) for dim in dims}
    lines, inputs = [], []
    for name, sizes in varying.items():
        place = places.get(name)
        if place is None and (match := _PLACE.fullmatch(name)) is not None:
            place = match["input"], int(match["axis"])
        if place is None and name.isdecimal():
            place = "x", int(name)
        if place is None:
            lines.append(f"# which input has {name}? --dim {name}=INPUT:AXIS names it")
            continue
        called = f"inputs[{place[0]}]" if place[0].isdecimal() else place[0]
        ends = f", min={sizes.smallest}, max={sizes.largest}" if sizes.smallest > 1 else ""
        lines.append(f"torch._dynamo.mark_dynamic({called}, {place[1]}{ends})")
        if not place[0].isdecimal():
            inputs.append(f"L['{place[0]}']")
    return "\n".join(lines), ",".join(dict.fromkeys(inputs))
