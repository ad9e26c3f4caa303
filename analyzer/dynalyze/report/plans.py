"""What to compile within a budget: `dynalyze plan`. Everything here is worked out from `measurements`."""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report.held import Message, Name, Quote

Way = Literal["automatic", "dynamic", "static", "buckets"]
"""How shapes are served: as torch does it by itself, marked dynamic, a version for each shape, padded to buckets."""


class PlanPoint(msgspec.Struct):
    """One way of running the calls. `start_up` are the seconds of the calls until they are steady, from empty caches,
    `warm_start_up` in a new process with the caches that the first one left; `ms` is a call from then on. With
    `compiles`, versions that the shapes of production need, a start-up counts as often.

    Of what was asked for: `total` seconds of so many calls, or the `calls` that fit into so many seconds. `frontier`:
    nothing else starts as soon and is as fast. `lines` compile the model this way.
    """

    configuration: Name
    start_up: float
    ms: float
    warm_start_up: float | None = None
    compiles: int = 1
    frontier: bool = False
    total: float | None = None
    warm_total: float | None = None
    calls: float | None = None
    warm_calls: float | None = None
    lines: Quote = ""


class PlanRange(msgspec.Struct):
    """From so many calls on this is the best way; up to the next range, or for good."""

    calls: float
    configuration: Name


class PlanOvertakes(msgspec.Struct):
    """After so many calls `later` has taken less time in all than `sooner`."""

    sooner: Name
    later: Name
    calls: float


class NotMeasured(msgspec.Struct):
    """A way that has no point, and why."""

    configuration: Name
    reason: Message


class ShapeWay(msgspec.Struct):
    """A way of serving all shapes: versions to compile, what padding adds to the elements of all calls, and the buckets
    by name. `total` seconds are of all calls of the histogram, by the measured points.
    """

    way: Way
    compiles: int
    padding: float = 0.0
    total: float | None = None
    buckets: dict[Name, list[int]] = {}


class SizeRange(msgspec.Struct):
    """The sizes that came, both ends included."""

    smallest: int
    largest: int


class ShapePlan(msgspec.Struct):
    """A histogram of shapes: so many `calls` of so many `shapes`, along the sizes that vary with their range. `lines`
    mark these dynamic, `sources` is for TORCH_COMPILE_DYNAMIC_SOURCES. `best` is one of the ways, "" where that is not
    known.
    """

    calls: int
    shapes: int
    varying: dict[Name, SizeRange] = {}
    ways: list[ShapeWay] = []
    best: Way | Literal[""] = ""
    lines: Quote = ""
    sources: Quote = ""


class CompilePlan(msgspec.Struct):
    """What to compile. One of `calls` and `seconds`, or neither, and perhaps the longest `start_up`, were asked for.

    `choice` is the configuration of the best point, `warm_choice` what that would be if every start found its caches
    warm; "" where nothing was asked for. `ranges` say from how many calls on which one is best. Where nothing could be
    measured `problem` says why, and `remedy` what to do.
    """

    calls: float | None = None
    seconds: float | None = None
    start_up: float | None = None
    choice: Name = ""
    warm_choice: Name = ""
    points: list[PlanPoint] = []
    ranges: list[PlanRange] = []
    warm_ranges: list[PlanRange] = []
    overtakes: list[PlanOvertakes] = []
    not_measured: list[NotMeasured] = []
    shapes: ShapePlan | None = None
    budget: float | None = None
    problem: Message = ""
    remedy: Message = ""
