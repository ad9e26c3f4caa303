"""What to compile, out of measured points: what so many calls take in all, what is best, and from when on.

A pass makes every recorded call once. The first passes, until they are steady, take what they were seen to take; from
then on each takes the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from dynalyze.bench.stats import percentile, usable
from dynalyze.capture.bench.protocol import AS_WRITTEN
from dynalyze.report.measurements import Measurement
from dynalyze.report.plans import CompilePlan, NotMeasured, PlanOvertakes, PlanPoint, PlanRange
from dynalyze.words.bench import EAGER, first_calls

_UNDISTURBED = 0.25
"""Of all passes: so many were hardly disturbed by others."""

_ENDLESS = 1e15
"""Passes: nobody waits for so many."""


@dataclass(frozen=True)
class Point:
    """One way of running: seconds of its first passes from empty caches, of those with warm ones (None: not measured),
    and of each pass after them. `versions` are the compiles that the shapes of production need.
    """

    name: str
    first: tuple[float, ...]
    again: tuple[float, ...] | None
    steady: float
    versions: int = 1

    def start_up(self, *, warm: bool = False) -> float:
        """Seconds until the passes are steady; infinite where that was not measured."""
        first = self._first(warm)
        return math.inf if first is None else math.fsum(first) + self._more(first, math.inf)

    def total(self, passes: float, *, warm: bool = False) -> float:
        """Seconds of so many passes."""
        first = self._first(warm)
        if first is None:
            return math.inf
        made = first[: max(1, math.ceil(passes))]
        return math.fsum(made) + self._more(first, passes) + max(0.0, passes - len(made)) * self.steady

    def passes_in(self, seconds: float, *, warm: bool = False) -> float:
        """How many passes are done after so many seconds; infinite where the start was not measured."""
        if self._first(warm) is None:
            return math.inf
        left = seconds - self.start_up(warm=warm)
        first = self._first(warm) or ()
        if left >= 0:
            return len(first) + left / self.steady
        return float(max((made for made in range(1, len(first)) if self.total(made, warm=warm) <= seconds), default=0))

    def _first(self, warm: bool) -> tuple[float, ...] | None:
        return self.again if warm else self.first

    def _more(self, first: Sequence[float], passes: float) -> float:
        """What the versions beyond the first add; no pass compiles more than one."""
        above = max(0.0, math.fsum(first) - len(first) * self.steady)
        return (min(self.versions, max(1.0, passes)) - 1) * above


@dataclass(frozen=True)
class Question:
    """What is asked for, in passes and seconds: the least time for so many passes, or the most passes in so long a
    time; else the fastest pass. `start_up` is how long starting may take.
    """

    passes: float | None = None
    seconds: float | None = None
    start_up: float | None = None

    @property
    def asked(self) -> bool:
        return any(each is not None for each in (self.passes, self.seconds, self.start_up))

    def cost(self, point: Point, *, warm: bool = False) -> tuple[float, ...]:
        """The smaller the better."""
        if self.passes is not None:
            return (point.total(self.passes, warm=warm),)
        if self.seconds is not None:
            done = point.passes_in(self.seconds, warm=warm)
            return (1 / done if done else math.inf, point.start_up(warm=warm))
        return (point.steady, point.start_up(warm=warm))

    def lasts(self, point: Point) -> float:
        """Seconds for which something else may start before it has lost to this point; infinite where it never has."""
        ends = (self.start_up, self.seconds, None if self.passes is None else point.total(self.passes))
        return min((each for each in ends if each is not None), default=math.inf)


def best(points: Sequence[Point], question: Question, *, warm: bool = False) -> Point | None:
    """The point to choose; where none starts soon enough, the one that starts soonest."""
    known = [point for point in points if math.isfinite(point.start_up(warm=warm))]
    limit = math.inf if question.start_up is None else question.start_up
    allowed = [point for point in known if point.start_up(warm=warm) <= limit]
    if not allowed:
        return min(known, key=lambda point: point.start_up(warm=warm), default=None)
    return min(allowed, key=lambda point: question.cost(point, warm=warm))


def rivals(points: Sequence[Point], question: Question, margin: float) -> list[Point]:
    """The best point and those that are behind it by no more than this share."""
    chosen = best(points, question)
    if chosen is None:
        return []
    most = question.cost(chosen)[0] * (1 + margin)
    limit = max(question.start_up or math.inf, chosen.start_up())
    return [point for point in points if question.cost(point)[0] <= most and point.start_up() <= limit * (1 + margin)]


def frontier(points: Iterable[Point]) -> list[Point]:
    """Those that nothing beats both in starting and in a pass; the soonest first, each next one faster."""
    found: list[Point] = []
    for point in sorted(points, key=lambda each: (each.start_up(), each.steady)):
        if not found or point.steady < found[-1].steady:
            found.append(point)
    return found


def overtaken(sooner: Point, later: Point, *, warm: bool = False) -> float | None:
    """After how many passes `later` has taken less time in all for good; None where it never does so, or does from the
    first pass on.
    """
    ends = [len(point.again or ()) if warm else len(point.first) for point in (sooner, later)]
    known = max(*ends, sooner.versions, later.versions)
    behind = [made for made in range(1, known + 1) if later.total(made, warm=warm) >= sooner.total(made, warm=warm)]
    ahead = later.total(known, warm=warm) - sooner.total(known, warm=warm)
    gain = sooner.steady - later.steady
    if not math.isfinite(ahead) or gain < 0 or (gain == 0 and ahead >= 0):
        return None
    if ahead >= 0:
        return known + ahead / gain
    return float(behind[-1] + 1) if behind else None


def ranges(points: Sequence[Point], *, warm: bool = False) -> list[tuple[float, Point]]:
    """From how many passes on which point is best: the first from 1, no two in a row the same."""
    # Among the first passes anything may overtake anything.
    known = max((max(len(each.first), len(each.again or ()), each.versions) for each in points), default=0)
    ends = {float(made) for made in range(1, known + 2)}
    for pair in permutations(points, 2):
        end = overtaken(*pair, warm=warm)
        if end is not None and end < _ENDLESS:
            ends.update((float(math.ceil(end)), math.floor(end) + 1.0))
    found: list[tuple[float, Point]] = []
    for end in sorted(ends):
        point = best(points, Question(passes=end), warm=warm)
        if point is not None and (not found or found[-1][1] is not point):
            found.append((end, point))
    return found


def points_of(measurements: Sequence[Measurement], versions: Mapping[str, int] | None = None) -> list[Point]:
    """The points of the valid measurements of one workload, eager's first.

    How long a pass takes is eager's time by the ratio of the pairs, in which both took turns: so the points of
    processes that ran at other times can be compared.
    """
    eager = next((each for each in measurements if each.configuration == EAGER and each.status == "valid"), None)
    if eager is None or eager.latency_ms is None or eager.startup is None:
        return []
    base = eager.latency_ms.p50
    plain = tuple(each / 1000 for each in eager.startup.eager_calls_ms[: first_calls(eager.startup)])
    found = [Point(EAGER, plain, plain, base / 1000)]  # Without caches every start is the same.
    for item in measurements:
        startup, ratio = item.startup, _ratio(item)
        if item is eager or item.status != "valid" or startup is None or not startup.cold_calls_ms or ratio is None:
            continue
        cold, again = (
            tuple(each / 1000 for each in calls[: first_calls(startup)])
            for calls in (startup.cold_calls_ms, startup.warm_calls_ms)
        )
        needed = (versions or {}).get(item.configuration, 1)
        found.append(Point(item.configuration, cold, again or None, base / ratio / 1000, needed))
    return found


def _ratio(item: Measurement) -> float | None:
    """Eager's time by that of the configuration, over the pairs of processes: of the lower quartiles, which what else
    runs on the machine disturbs less than medians.
    """
    arms = [(sorted(usable(pair.eager)), sorted(usable(pair.compiled))) for pair in item.samples]
    logs = [
        math.log(percentile(one, _UNDISTURBED) / percentile(other, _UNDISTURBED))
        for one, other in arms
        if one and other
    ]
    return math.exp(statistics.fmean(logs)) if logs else None


@dataclass(frozen=True)
class Wish:
    """What the user asks for, in calls and seconds."""

    calls: float | None = None
    seconds: float | None = None
    start_up: float | None = None

    def in_passes(self, calls: int) -> Question:
        """The same where a pass makes so many calls."""
        return Question(None if self.calls is None else self.calls / calls, self.seconds, self.start_up)


def compile_plan(
    measurements: Sequence[Measurement], wish: Wish, *, versions: Mapping[str, int] | None = None,
    lines: Mapping[str, str] | None = None,
) -> CompilePlan:  # fmt: skip
    """What the measurements of one workload come to. `lines` compile those ways that no argument of torch.compile
    tells.
    """
    points = points_of(measurements, versions)
    items = {each.configuration: each for each in measurements}
    plan = CompilePlan(wish.calls, wish.seconds, wish.start_up)
    plan.not_measured = [
        NotMeasured(each.configuration, each.reason or "its first calls were not measured")
        for each in measurements
        if each.configuration not in {point.name for point in points}
    ]
    if not points:
        return plan
    made = items[EAGER].calls
    question, chosen = wish.in_passes(made), frontier(points)
    for point in points:
        record = PlanPoint(
            point.name, point.start_up(), point.steady * 1000 / made, _known(point.start_up(warm=True)),
            compiles=point.versions, frontier=point in chosen,
            lines=lines_for(items[point.name], (lines or {}).get(point.name, "")),
        )  # fmt: skip
        if question.passes is not None:
            record.total, record.warm_total = (
                _known(point.total(question.passes, warm=warm)) for warm in (False, True)
            )
        elif question.seconds is not None:
            record.calls = point.passes_in(question.seconds) * made
            record.warm_calls = _known(point.passes_in(question.seconds, warm=True) * made)
        plan.points.append(record)
    if question.asked:
        one, other = best(points, question), best(points, question, warm=True)
        plan.choice, plan.warm_choice = one.name if one else "", other.name if other else ""
    plan.ranges, plan.warm_ranges = (
        [PlanRange(start * made if at else 1.0, point.name) for at, (start, point) in enumerate(found)]
        for found in (ranges(points), ranges(points, warm=True))
    )
    plan.overtakes = [
        PlanOvertakes(sooner.name, later.name, end * made)
        for sooner, later in permutations(points, 2)
        if (end := overtaken(sooner, later)) is not None
    ]
    return plan


def lines_for(item: Measurement, parts: str = "") -> str:
    """What to paste to compile a model called `model` this way; `parts` are lines that compile parts of it."""
    given = item.options
    arguments = {name: given[name] for name in ("mode", "fullgraph") if given.get(name)}
    if given.get("backend", "inductor") != "inductor":
        arguments["backend"] = given["backend"]
    if given.get("dynamic") in ("on", "off"):
        arguments["dynamic"] = given["dynamic"] == "on"
    told = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    if item.configuration == EAGER:
        return "# no torch.compile: the model stays in eager"
    if item.configuration == AS_WRITTEN:
        return "# as the program compiles it"
    if parts:
        return parts.replace(".compile()", f".compile({told})")
    if given.get("region") == "accelerate":
        return f"model = accelerate.utils.compile_regions(model{', ' if told else ''}{told})"
    if given.get("region"):
        return f"for block in model.layers:  # each of its repeated blocks\n    block.compile({told})"
    return f"model = torch.compile(model{', ' if told else ''}{told})"


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None
