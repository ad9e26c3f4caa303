"""The shapes of production: how many versions they compile, and which sizes to pad to, so that few versions serve all.

A histogram is read from a CSV with a column for each size (or one called `shape`) and perhaps `count`, from a log with
a shape in brackets on each line, or from a report.

A bucket is one of the given sizes, and every size is padded to the next bucket. The fewest buckets are chosen that keep
the padding below a quarter of the elements and the versions within the recompile limit; if both are impossible, the
least padding within the limit. For a given number of buckets the best ones are found exactly, by dynamic programming
over the sorted sizes.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, product

from dynalyze.capture.shapes import Dim
from dynalyze.launch.shape_options import Shape
from dynalyze.render.text.bench import EAGER
from dynalyze.report import Report
from dynalyze.report.audit import Bucket
from dynalyze.report.measurements import Measurement
from dynalyze.report.plans import PlanBucket, ShapePlan, SizeRange
from dynalyze.rules.recompile_advice.source import read_source
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import one_line

Histogram = dict[Shape, int]  # How often each shape comes, in the order in which they first came.
_MOST_MEASURED = 4  # Buckets: each in processes of its own.
_MOST_BUCKETS = 16  # Of one name: who raised the recompile limit to hundreds still pads to a handful of sizes.
_MOST_PADDING = 0.25  # What padding may add to the elements of all shapes together.
_DEFAULT_LIMIT = 8
_COUNTS = ("count", "calls", "n", "frequency")
_HEAD = re.compile(r"[^\W\d][\w.\[\]']*(:\d+)?")
_IN_BRACKETS = re.compile(r"[(\[]\s*(\d{1,9}(?:\s*[,x]\s*\d{1,9})*)\s*,?\s*[)\]]")
_PLACE = re.compile(r"(?P<input>.+):(?P<axis>\d+)")
_MOST_SHAPES = 10_000
_LARGEST, _MOST_CALLS = 10**9 - 1, 10**15


def read_histogram(text: str, file: str) -> Histogram:
    """The shapes of a CSV or a log. Raises UsageError if there are none, or a row is malformed."""
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
    """The shapes of its warm-up, its measurements or its recompiles. Raises UsageError if it has none."""
    shapes = [each.shape for each in report.warmup.calls] if report.warmup is not None else []
    shapes = shapes or [each.shape for each in report.measurements if each.shape and each.configuration == EAGER]
    shapes = shapes or _recompiled(report)
    found = _counted(((number, shape, 1) for number, shape in enumerate(shapes, 1)), file)
    if not found:
        raise UsageError(f"{file}: a report without shapes; one of audit --shapes has them, or one with recompiles")
    return found


def automatic_compiles(shapes: Iterable[Shape]) -> int:
    """How many versions torch compiles for these shapes in this order: a size that changed since an earlier compile is
    dynamic from then on, unless it is 0 or 1.
    """
    versions: list[dict[str, int | None]] = []
    seen: dict[str, int] = {}
    changed: set[str] = set()
    for shape in map(dict, shapes):
        known = ([(size, version[name]) for name, size in shape.items()] for version in versions)
        if any(all(size > 1 if its is None else size == its for size, its in each) for each in known):
            continue
        changed |= {name for name, size in shape.items() if seen.setdefault(name, size) != size}
        versions.append({name: None if name in changed and size > 1 else size for name, size in shape.items()})
    return len(versions)


def marked_compiles(shapes: Iterable[Shape]) -> int:
    """How many versions there are if every size is marked dynamic: 0 and 1 have versions of their own."""
    return len({tuple(min(size, 2) for _, size in shape) for shape in shapes})


def bucketed(histogram: Histogram) -> list[PlanBucket]:
    """The shapes to pad calls to, the one with most calls first."""
    counts: dict[str, dict[int, int]] = {}
    for shape, count in histogram.items():
        for name, size in shape:
            sizes = counts.setdefault(name, {})
            sizes[size] = sizes.get(size, 0) + count
    chosen = choose(counts, _MOST_MEASURED)
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
    """Raises UsageError if a row has other sizes than the first, or an impossible one."""
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
    """The sizes of "8x128" or "(8, 128)" by axis; raises ValueError."""
    return {str(axis): int(size) for axis, size in enumerate(re.split(r"\s*[,x]\s*", text.strip("()[] ,")))}


def _recompiled(report: Report) -> list[dict[str, int]]:
    """The sizes whose change caused recompiles, by input and axis."""
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


@dataclass(frozen=True)
class Bucketed:
    """Buckets by name, always with the largest size, and what they add to the elements of all shapes."""

    sizes: dict[str, tuple[int, ...]]
    padding: float

    @property
    def count(self) -> int:
        return math.prod(map(len, self.sizes.values()))

    def merges(self, shapes: Sequence[Mapping[str, int]]) -> bool:
        """Whether any size is padded."""
        return any(len(own) < len({shape[name] for shape in shapes}) for name, own in self.sizes.items())

    def padded(self, shape: Mapping[str, int]) -> dict[str, int]:
        return {name: min(size for size in sizes if size >= shape[name]) for name, sizes in self.sizes.items()}

    def records(self, shapes: Iterable[Mapping[str, int]]) -> list[Bucket]:
        """Each bucket with the number of shapes that it serves."""
        counts = Counter(tuple(self.padded(shape).items()) for shape in shapes)
        every = (tuple(zip(self.sizes, each, strict=True)) for each in product(*self.sizes.values()))
        return [Bucket(dict(key), counts[key]) for key in every if counts[key]]


def choose(sizes: Mapping[str, Mapping[int, int]], most_versions: int, most_padding: float = _MOST_PADDING) -> Bucketed:
    """The fewest buckets within both bounds, else within the first. `sizes` counts how often each comes."""
    most = max(1, min(most_versions, _MOST_BUCKETS))
    ladders = [ladder(counts, most) for counts in sizes.values()]
    exact = math.prod(sum(size * count for size, count in counts.items()) for counts in sizes.values())
    # Of shapes that are all combinations the elements of all of them are the product of the sums of the names.
    choices = [
        Bucketed(
            dict(zip(sizes, (buckets for _, buckets in rungs), strict=True)),
            math.prod(total for total, _ in rungs) / exact - 1 if exact else 0.0,
        )
        for rungs in product(*ladders)
    ]
    allowed = [each for each in choices if each.count <= max(1, most_versions)]
    if good := [each for each in allowed if each.padding <= most_padding]:
        return min(good, key=lambda each: (each.count, each.padding))
    return min(allowed, key=lambda each: (each.padding, each.count))


def costly_buckets(
    shapes: Sequence[Mapping[str, int]], versions: Sequence[Sequence[int]], limit: int
) -> Bucketed | None:
    """Buckets for the names that cost versions; None if none does. A shape that runs in eager has no `versions`."""
    costly = [name for name in (shapes[0] if shapes else ()) if _costs(name, shapes, versions)]
    sizes = {name: dict.fromkeys((shape[name] for shape in shapes), 1) for name in costly}
    return choose(sizes, limit or _DEFAULT_LIMIT) if sizes else None


Rung = tuple[int, tuple[int, ...]]  # The sum of padded sizes, and the buckets that have it.


def ladder(sizes: Mapping[int, int], most: int) -> list[Rung]:
    """The best rung for one bucket, for two, and so on; `sizes` counts how often each comes."""
    ordered = sorted(sizes)
    upto = [0, *accumulate(sizes[size] for size in ordered)]  # Calls with one of the first so many sizes.
    # Of the sizes up to each, with its own as the last bucket.
    best: list[Rung] = [(upto[end] * size, (size,)) for end, size in enumerate(ordered, 1)]
    found = [best[-1]]
    while len(found) < min(most, len(ordered)):
        best = _one_more(ordered, upto, best, len(found) + 1)
        found.append(best[-1])
    return found


def _one_more(ordered: list[int], upto: list[int], best: list[Rung], count: int) -> list[Rung]:
    """The best rungs with `count` buckets, from those with one less."""
    made = list(best)

    def fill(low: int, high: int, first: int, last: int) -> None:
        """For ends from `low` to `high`; the later the end, the later its best cut."""
        if low > high:
            return
        end = (low + high) // 2
        size, cuts = ordered[end], range(first, min(last, end - 1) + 1)
        total, cut = min((best[cut][0] + (upto[end + 1] - upto[cut + 1]) * size, cut) for cut in cuts)
        made[end] = total, (*best[cut][1], size)
        fill(low, end - 1, first, cut)
        fill(end + 1, high, cut, last)

    fill(count - 1, len(ordered) - 1, count - 2, len(ordered) - 2)
    return made


def _costs(name: str, shapes: Sequence[Mapping[str, int]], versions: Sequence[Sequence[int]]) -> bool:
    """Whether, with the other sizes fixed, every size has its own version, or more than two do."""
    lines: dict[tuple[tuple[str, int], ...], list[tuple[int, ...]]] = {}
    for number, (shape, used) in enumerate(zip(shapes, versions, strict=True)):
        rest = tuple((other, size) for other, size in shape.items() if other != name)
        # What runs in eager would need a version of its own.
        lines.setdefault(rest, []).append(tuple(used) or (-1 - number,))
    return any(len(set(line)) > 2 or 1 < len(set(line)) == len(line) for line in lines.values())
