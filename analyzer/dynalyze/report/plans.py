"""What to compile: `dynalyze plan`. Everything here is worked out from `measurements`."""

from __future__ import annotations

import msgspec

from dynalyze.report.sensitivity import Message, Name, Quote


class PlanPoint(msgspec.Struct):
    """One way of running the calls. `start_up` are the seconds of the calls until they are steady, from empty caches,
    `warm_start_up` in a new process with the caches that the first one left; `ms` is a call from then on.

    Of what was asked for: `total` seconds of so many calls, or the `calls` that fit into so many seconds. `frontier`:
    nothing else starts as soon and is as fast. `lines` compile the model this way.
    """

    configuration: Name
    start_up: float
    ms: float
    warm_start_up: float | None = None
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


class NotMeasured(msgspec.Struct):
    """A way that has no point, and why."""

    configuration: Name
    reason: Message


class SizeRange(msgspec.Struct):
    """The sizes that came, both ends included."""

    smallest: int
    largest: int


class PlanBucket(msgspec.Struct):
    """Calls that are padded to one shape, what that adds to their elements, and a call with it as it was measured:
    compiled with fixed sizes, and in eager. None: not measured.
    """

    padded_to: dict[Name, int]
    calls: int
    padding: float
    ms: float | None = None
    eager_ms: float | None = None


class ShapePlan(msgspec.Struct):
    """A histogram of shapes: so many `calls` of so many `shapes`, along the sizes that vary with their range.

    Versions that are compiled: `automatic` by torch itself, `dynamic` with the varying sizes marked; padded, one for
    each of the `buckets`. `total` seconds are of all calls padded, as measured. `lines` mark the sizes dynamic,
    `sources` is for TORCH_COMPILE_DYNAMIC_SOURCES. `problem` is why buckets were not measured.
    """

    calls: int
    shapes: int
    varying: dict[Name, SizeRange] = {}
    automatic: int = 1
    dynamic: int = 1
    buckets: list[PlanBucket] = []
    total: float | None = None
    lines: Quote = ""
    sources: Quote = ""
    problem: Message = ""


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
    not_measured: list[NotMeasured] = []
    shapes: ShapePlan | None = None
    budget: float | None = None
    problem: Message = ""
    remedy: Message = ""
