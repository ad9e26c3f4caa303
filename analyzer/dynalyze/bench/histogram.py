"""The shapes of production as a histogram: how many versions they compile, and which buckets would do instead.

A file has the shapes, each with how often it comes: a CSV with a column for each size (or one called `shape`) and
perhaps `count`; a log with a shape in brackets on each line; or a report.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from dynalyze.bench.buckets import choose
from dynalyze.capture.shapes import Dim
from dynalyze.launch.shape_options import Shape
from dynalyze.render.words.bench import EAGER
from dynalyze.report import Report
from dynalyze.report.measurements import Measurement
from dynalyze.report.plans import PlanBucket, ShapePlan, SizeRange
from dynalyze.rules.recompile_advice.source import read_source
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import one_line

Histogram = dict[Shape, int]  # How often each shape comes, in the order in which they first came.
_MOST_BUCKETS = 4  # Each is measured, in processes of its own.
_COUNTS = ("count", "calls", "n", "frequency")
_HEAD = re.compile(r"[^\W\d][\w.\[\]']*(:\d+)?")
_IN_BRACKETS = re.compile(r"[(\[]\s*(\d{1,9}(?:\s*[,x]\s*\d{1,9})*)\s*,?\s*[)\]]")
_PLACE = re.compile(r"(?P<input>.+):(?P<axis>\d+)")
_MOST_SHAPES = 10_000
_LARGEST, _MOST_CALLS = 10**9 - 1, 10**15


def read_histogram(text: str, file: str) -> Histogram:
    """The shapes of a CSV or a log. Raises UsageError where there is none, or a line is no row."""
    lines = io.StringIO(text, newline=None).readlines()
    heads: list[str] = []
    with contextlib.suppress(csv.Error):
        heads = [head.strip() for head in next(csv.reader(lines[:1]), [])]
    if len(heads) > 1 and all(map(_HEAD.fullmatch, heads)):
        found = _of_table(lines, file)
    else:
        brackets = ((number, _IN_BRACKETS.search(line)) for number, line in enumerate(lines, 1))
        found = _counted(((number, _axes(match[1]), 1) for number, match in brackets if match is not None), file)
    if not found:
        raise UsageError(
            f"{file}: no shapes in it; give a CSV with a column for each size and one called count, or a log with a "
            "shape in brackets on each line"
        )
    if len(found) > _MOST_SHAPES:
        raise UsageError(f"{file}: {len(found):,} shapes; at most {_MOST_SHAPES:,} are looked at")
    return found


def shapes_of_report(report: Report, file: str) -> Histogram:
    """The shapes of its warm-up, its measurements or its recompiles. Raises UsageError without any."""
    shapes = [each.shape for each in report.warmup.calls] if report.warmup is not None else []
    shapes = shapes or [each.shape for each in report.measurements if each.shape and each.configuration == EAGER]
    shapes = shapes or _recompiled(report)
    found = _counted(((number, shape, 1) for number, shape in enumerate(shapes, 1)), file)
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


def marked_compiles(shapes: Iterable[Shape]) -> int:
    """How many versions there are with every size marked dynamic from the start: 0 and 1 have versions of their own."""
    return len({tuple(min(size, 2) for _, size in shape) for shape in shapes})


def _fits(size: int, known: int | None) -> bool:
    return size == known if known is not None else size > 1


def bucketed(histogram: Histogram) -> list[PlanBucket]:
    """The shapes that calls are padded to, that with most calls first."""
    counts: dict[str, dict[int, int]] = {}
    for shape, count in histogram.items():
        for name, size in shape:
            sizes = counts.setdefault(name, {})
            sizes[size] = sizes.get(size, 0) + count
    chosen = choose(counts, _MOST_BUCKETS)
    served: dict[Shape, Histogram] = {}
    for shape, count in histogram.items():
        served.setdefault(tuple(chosen.padded(dict(shape)).items()), {})[shape] = count
    found = []
    for padded, shapes in served.items():
        calls, exact = sum(shapes.values()), sum(count * _elements(shape) for shape, count in shapes.items())
        found.append(PlanBucket(dict(padded), calls, calls * _elements(padded) / exact - 1 if exact else 0.0))
    return sorted(found, key=lambda bucket: -bucket.calls)


def _elements(shape: Shape) -> int:
    return math.prod(size for _, size in shape)


def shape_plan(histogram: Histogram, measurements: Sequence[Measurement], dims: Sequence[Dim] = ()) -> ShapePlan:
    """What there is to do about the shapes, with the buckets as they were measured."""
    sizes: dict[str, list[int]] = {}
    for name, size in chain.from_iterable(histogram):
        sizes.setdefault(name, []).append(size)
    varying = {name: SizeRange(min(each), max(each)) for name, each in sizes.items() if min(each) < max(each)}
    plan = ShapePlan(
        sum(histogram.values()), len(histogram), varying, automatic_compiles(histogram), marked_compiles(histogram)
    )
    compiling = 0.0
    plan.buckets = bucketed(histogram) if varying else []
    for bucket in plan.buckets:
        for item in measurements:
            if item.shape != bucket.padded_to or item.latency_ms is None or item.status != "valid":
                continue
            if item.configuration == EAGER:
                bucket.eager_ms = item.latency_ms.p50 / item.calls
            elif item.configuration == "default" and item.startup is not None:
                bucket.ms = item.latency_ms.p50 / item.calls
                first = item.startup.cold_calls_ms
                compiling += max(0.0, math.fsum(first) - len(first) * item.latency_ms.p50) / 1000
    if plan.buckets and all(bucket.ms is not None for bucket in plan.buckets):
        plan.total = compiling + sum((bucket.ms or 0.0) / 1000 * bucket.calls for bucket in plan.buckets)
    plan.lines, plan.sources = _lines(varying, dims)
    return plan


Row = tuple[int, Mapping[str, int], int]  # The number of a line, the sizes in it, and how often they come.


def _counted(rows: Iterable[Row], file: str) -> Histogram:
    """Raises UsageError where a row has other sizes than the first, or one that no tensor has."""
    found: Histogram = {}
    first: tuple[int, tuple[str, ...]] | None = None
    for number, shape, count in rows:
        if not shape or count == 0:
            continue
        first = first or (number, tuple(shape))
        if set(shape) != set(first[1]):
            raise UsageError(
                f"{file}:{number}: its sizes are not those of line {first[0]} ({one_line(', '.join(first[1]))}); give "
                "each kind of shape a file of its own"
            )
        key = tuple((name, shape[name]) for name in first[1])
        if count < 0 or count > _MOST_CALLS or not all(0 <= size <= _LARGEST for _, size in key):
            raise UsageError(f"{file}:{number}: a size or a count is out of range")
        found[key] = found.get(key, 0) + count
    return found


def _of_table(lines: list[str], file: str) -> Histogram:
    rows = csv.DictReader(lines, skipinitialspace=True)
    found: list[Row] = []
    try:
        for row in rows:
            values = {head.strip(): (value or "").strip() for head, value in row.items() if head is not None}
            # A size may be called as a count is where another column is the count.
            head = next((head for name in _COUNTS for head in values if head.lower() == name), None)
            count = 1 if head is None else int(values.pop(head))
            shape: dict[str, int] = {}
            for head, value in values.items():
                shape |= _axes(value) if head.lower() == "shape" else {head: int(value)}
            found.append((rows.line_num, shape, count))
    except csv.Error as error:
        raise UsageError(f"{file}:{rows.line_num + 1}: no row of a CSV: {error}") from None
    except ValueError as error:
        raise UsageError(f"{file}:{rows.line_num}: a size or a count is no whole number: {error}") from None
    return _counted(found, file)


def _axes(text: str) -> dict[str, int]:
    """The sizes of "8x128", "(8, 128)" by their axes; raises ValueError."""
    return {str(axis): int(size) for axis, size in enumerate(re.split(r"\s*[,x]\s*", text.strip("()[] ,")))}


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


def named_dims(names: Iterable[str], dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Which input has each size: as `dims` say, or by its own name, `input_ids:1`."""
    known = {dim.name for dim in dims}
    places = ((name, _PLACE.fullmatch(name)) for name in names if name not in known)
    return (*dims, *(Dim(name, place["input"], int(place["axis"])) for name, place in places if place is not None))


def _lines(varying: Mapping[str, SizeRange], dims: Sequence[Dim]) -> tuple[str, str]:
    """The lines that mark the varying sizes dynamic, and the list for the environment."""
    places = {dim.name: dim for dim in named_dims(varying, dims)}
    lines, inputs = [], []
    for name, sizes in varying.items():
        dim = places.get(name) or (Dim(name, "x", int(name)) if name.isdecimal() else None)
        if dim is None:
            lines.append(f"# which input has {name}? --dim {name}=INPUT:AXIS names it")
            continue
        called = f"inputs[{dim.input}]" if dim.input.isdecimal() else dim.input
        ends = f", min={sizes.smallest}, max={sizes.largest}" if sizes.smallest > 1 else ""
        lines.append(f"torch._dynamo.mark_dynamic({called}, {dim.axis}{ends})")
        if not dim.input.isdecimal():
            inputs.append(f"L['{dim.input}']")
    return "\n".join(lines), ",".join(dict.fromkeys(inputs))
