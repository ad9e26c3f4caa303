"""What to compile, and how: measures ways of compiling, each completely before the next, so that a budget cuts whole
ways; then works out the total time of so many calls, and which way is best from how many calls on.

A pass makes every recorded call once. The first passes take what they were measured to take; from then on each takes
the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from dynalyze.bench import schedule
from dynalyze.bench.plan import Plan
from dynalyze.bench.records import ConfigRun, measurement
from dynalyze.bench.run import Benchmarks, WorkBench, run_bench
from dynalyze.bench.stats import percentile, usable
from dynalyze.bench.workers import WorkerFailed
from dynalyze.capture.bench.protocol import AS_WRITTEN
from dynalyze.render.text.bench import EAGER, first_calls
from dynalyze.report.measurements import Measurement
from dynalyze.report.plans import CompilePlan, NotMeasured, PlanPoint, PlanRange

_UNDISTURBED = 0.25  # Of all passes: so many were hardly disturbed by others.
_ENDLESS = 1e15  # Passes: nobody waits for so many.


@dataclass(frozen=True)
class Point:
    """One way of running: seconds of its first passes, and of each pass after them."""

    name: str
    first: tuple[float, ...]
    steady: float

    @property
    def start_up(self) -> float:
        """Seconds until the passes are steady."""
        return math.fsum(self.first)

    def total(self, passes: float) -> float:
        made = self.first[: max(1, math.ceil(passes))]
        return math.fsum(made) + max(0.0, passes - len(made)) * self.steady

    def passes_in(self, seconds: float) -> float:
        """How many passes are done after so many seconds."""
        left = seconds - self.start_up
        if left >= 0:
            return len(self.first) + left / self.steady
        return float(sum(self.total(made) <= seconds for made in range(1, len(self.first))))


@dataclass(frozen=True)
class PlanRequest:
    """What is asked for: the least time for so many `calls`, or the most calls in so many `seconds`, or else the
    fastest call. `start_up` limits the seconds of starting.
    """

    calls: float | None = None
    seconds: float | None = None
    start_up: float | None = None

    @property
    def asked(self) -> bool:
        return any(each is not None for each in (self.calls, self.seconds, self.start_up))

    def best(self, points: Iterable[Point], calls: int) -> Point | None:
        """The best point if a pass makes so many `calls`; if none starts soon enough, the soonest."""

        def cost(point: Point) -> tuple[float, float]:
            if self.calls is not None:
                return point.total(self.calls / calls), 0.0
            if self.seconds is not None:
                return -point.passes_in(self.seconds), point.start_up
            return point.steady, point.start_up

        known = list(points)
        allowed = [point for point in known if self.start_up is None or point.start_up <= self.start_up]
        return min(allowed, key=cost) if allowed else min(known, key=lambda point: point.start_up, default=None)


def frontier(points: Iterable[Point]) -> list[Point]:
    """The points that no other beats in both start and pass, from the soonest start to the fastest pass."""
    found: list[Point] = []
    for point in sorted(points, key=lambda each: (each.start_up, each.steady)):
        if not found or point.steady < found[-1].steady:
            found.append(point)
    return found


def ranges(points: Sequence[Point], calls: int = 1) -> list[PlanRange]:
    """From how many calls on which point is best, if a pass makes so many; neighbours differ."""
    # Among the first passes anything may overtake anything; after them lines cross once.
    known = max((len(each.first) for each in points), default=0)
    ends = set(range(1, known + 2))
    for one, other in permutations(points, 2):
        gain, behind = one.steady - other.steady, other.total(known) - one.total(known)
        if gain > 0 and 0 <= behind < gain * _ENDLESS:
            ends |= {math.ceil(known + behind / gain), math.floor(known + behind / gain) + 1}
    found: list[PlanRange] = []
    for end in sorted(ends):
        point = min(points, key=lambda each: each.total(end), default=None)
        if point is not None and (not found or found[-1].configuration != point.name):
            found.append(PlanRange(end * calls if found else 1.0, point.name))
    return found


def points_of(measurements: Sequence[Measurement], *, warm: bool = False) -> list[Point]:
    """The points of the valid measurements of one workload, eager first, from empty or warm caches.

    The time of a pass is eager's, divided by the ratio of the pairs, in which both took turns: so processes that ran at
    different times can be compared.
    """
    eager = next((each for each in measurements if each.configuration == EAGER and each.status == "valid"), None)
    if eager is None or eager.latency_ms is None or eager.startup is None:
        return []
    found = [_point(eager, eager.startup.eager_calls_ms, eager.latency_ms.p50)]  # The same whatever the caches hold.
    for item in measurements:
        ratio = _ratio(item)
        if item is not eager and item.status == "valid" and item.startup is not None and ratio is not None:
            first = item.startup.warm_calls_ms if warm else item.startup.cold_calls_ms
            found += [_point(item, first, eager.latency_ms.p50 / ratio)] if first else []
    return found


def _point(item: Measurement, first_ms: Sequence[float], ms: float) -> Point:
    assert item.startup is not None
    first = tuple(each / 1000 for each in first_ms[: first_calls(item.startup)])
    return Point(item.configuration, first, ms / 1000)


def _ratio(item: Measurement) -> float | None:
    """Eager's time over the configuration's, across the pairs: of lower quartiles, which other load disturbs less."""
    arms = [(sorted(usable(pair.eager)), sorted(usable(pair.compiled))) for pair in item.samples]
    logs = [
        math.log(percentile(one, _UNDISTURBED) / percentile(other, _UNDISTURBED))
        for one, other in arms
        if one and other
    ]
    return math.exp(statistics.fmean(logs)) if logs else None


def compile_plan(measurements: Sequence[Measurement], request: PlanRequest) -> CompilePlan:
    cold, warm = points_of(measurements), points_of(measurements, warm=True)
    items = {each.configuration: each for each in measurements}
    plan = CompilePlan(request.calls, request.seconds, request.start_up)
    plan.not_measured = [
        NotMeasured(each.configuration, each.reason or "its first calls were not measured")
        for each in measurements
        if each.configuration not in {point.name for point in cold}
    ]
    ended_early = any(each.status == "valid" and each.reason for each in measurements)
    if not cold or (ended_early and len(cold) == 1):  # Eager is not best because nothing else was measured.
        return plan
    made = items[EAGER].calls
    chosen, warmed = frontier(cold), {point.name: point for point in warm}
    for point in cold:
        again = warmed.get(point.name)
        record = PlanPoint(
            point.name, point.start_up, point.steady * 1000 / made, None if again is None else again.start_up,
            frontier=point in chosen, lines=lines_for(items[point.name]),
        )  # fmt: skip
        if request.calls is not None:
            record.total = point.total(request.calls / made)
            record.warm_total = None if again is None else again.total(request.calls / made)
        elif request.seconds is not None:
            record.calls = point.passes_in(request.seconds) * made
            record.warm_calls = None if again is None else again.passes_in(request.seconds) * made
        plan.points.append(record)
    if request.asked:
        plan.choice, plan.warm_choice = (
            best.name if (best := request.best(points, made)) is not None else "" for points in (cold, warm)
        )
    plan.ranges, plan.warm_ranges = ranges(cold, made), ranges(warm, made)
    return plan


def lines_for(item: Measurement) -> str:
    """The lines that compile a model called `model` this way."""
    given = item.options
    arguments = {name: given[name] for name in ("mode", "fullgraph") if given.get(name)}
    if given.get("backend", "inductor") != "inductor":
        arguments["backend"] = given["backend"]
    if given.get("dynamic") in ("on", "off"):
        arguments["dynamic"] = given["dynamic"] == "on"
    passed = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    after = f", {passed}" if passed else ""
    if item.configuration == EAGER:
        return "# no torch.compile: the model stays in eager"
    if item.configuration == AS_WRITTEN:
        return "# as the program compiles it"
    if given.get("region") == "accelerate":
        return f"model = accelerate.utils.compile_regions(model{after})"
    if given.get("region"):
        return f"for block in model.layers:  # each of its repeated blocks\n    block.compile({passed})"
    return f"model = torch.compile(model{after})"


class Ways(WorkBench):
    """One workload in every way: cold and warm starts, pairs with eager, and the best way's answers."""

    request = PlanRequest()

    def _rows(self, device: str) -> list[ConfigRun]:
        """The default set leaves out `fullgraph`: it compiles what `default` does, or fails."""
        asked = self._plan.configurations is not None
        return [row for row in super()._rows(device) if asked or row.name != "fullgraph"]

    def _measure(self) -> None:
        self._round([self.eager])
        for row in self.rows:
            if row.configuration.region and not self.eager.load.repeated:
                row.problem = "the model has no list of repeated blocks"
                continue
            self._first_calls(row)
            if not row.usable:
                continue
            try:
                with self._progress.doing("cold start", self._named(row, "a second start")):
                    row.warm = schedule.extra(self._pool, self._arm(row), schedule.PAIR_WARMING, new=True)
            except WorkerFailed as error:
                row.notes.append(f"a second start is not known: {error.message}")
            self._round([row])
        rows = [self.eager, *(row for row in self.rows if row.usable)]
        for _ in range(1, self._plan.pairs):
            self._round([row for row in rows if row.usable])
        for row in rows:
            row.timed = True
        points = points_of([measurement(row, self.eager) for row in rows])
        chosen = self.request.best(points, self.eager.load.calls)
        for row in self.rows:
            if chosen is not None and row.name == chosen.name:
                row.accuracy = self._compared(row)


class PaddedCall(WorkBench):
    """One workload of a size to pad to, compiled as a whole."""

    def _measure(self) -> None:
        for row in self.rows:
            self._first_calls(row)
        self._pairs()


def measure_ways(plan: Plan, request: PlanRequest) -> Benchmarks:
    """Measure the first workload in every way, and the others, which are sizes to pad to."""

    def of_a_work(plan: Plan, work: Any, *more: Any) -> WorkBench:
        if len(plan.works) > 1:  # Further pairs would cost the other sizes.
            plan = replace(plan, pairs=1, seconds=plan.seconds / plan.pairs)
        if work is not plan.works[0]:
            return PaddedCall(replace(plan, configurations=(plan.default,), adds_written=False), work, *more)
        ways = Ways(plan, work, *more)
        ways.request = request
        return ways

    return run_bench(plan, of_a_work=of_a_work)
