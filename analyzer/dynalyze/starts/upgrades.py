"""Runs a target under two interpreters, measures both in turns, and tells what is not the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dynalyze.bench import measure, schedule
from dynalyze.bench.pair_counts import MIN_PAIRS
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.schedule import Arm
from dynalyze.bench.stats import enough, latency, speedup
from dynalyze.bench.workers import Stopped, WorkerFailed, WorkerPool
from dynalyze.comparison import upgrades as told
from dynalyze.comparison.reports import compare
from dynalyze.comparison.types import Measurement
from dynalyze.comparison.upgrades import Interpreter, Measured, Outputs, Upgrade
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.interrupts import first_signal
from dynalyze.launch.observe import Observation, Observed, observed
from dynalyze.launch.run import cache_variables
from dynalyze.launch.sandbox import Again
from dynalyze.launch.streams import Streams
from dynalyze.report import Report
from dynalyze.report.measurements import Pair
from dynalyze.text.errors import UsageError

Progress = Callable[[str], None]
Show = Callable[[Report], Report]
_ENDED = ("failed", "timed_out", "interrupted")
_MOST_RUNS = 3


@dataclass
class _Side:
    """One of the two interpreters, its runs, and the first of them while its folder is there."""

    python: str
    reports: list[Report] = field(default_factory=list)
    seen: Observed | None = None

    @property
    def torch(self) -> str:
        return str(self.reports[0].environment.get("torch") or "") if self.reports else ""

    @property
    def ended(self) -> bool:
        return self.reports[0].outcome.status not in _ENDED


def upgrade(
    observation: Observation, pythons: tuple[str, str], plan: Plan | None, show: Show, say: Progress
) -> tuple[Upgrade, list[Report]]:
    """What the second interpreter changes for the target, and the report of each one's first run. Without `plan`
    nothing is timed.

    Each runs it twice, with an empty cache folder every time, in the order first, second, second, first: only what both
    pairs of runs tell is told.
    """
    sides = [_Side(python) for python in pythons]
    with TemporaryFolder() as folder, ExitStack() as stack:

        def start(side: _Side, number: int) -> None:
            say(f"run {number} under {side.torch or side.python}")
            switches = {**observation.switches, **cache_variables(folder / f"caches{number}")}
            again = Again() if number == 1 else observation.again(sides[0].reports[0])
            if again.reason:
                raise UsageError(f"{observation.target.spec} cannot be compared: {again.reason}")
            asked = replace(
                observation, python=side.python, switches=switches, bundle=plan is not None and not side.reports,
                isolation=again.isolation, keep=[str(folder)],
            )  # fmt: skip
            try:
                seen = stack.enter_context(observed(asked))
            except UsageError as error:
                raise UsageError(f"{side.python}: {error}") from error
            side.seen = side.seen or seen
            side.reports.append(seen.report)

        for number, side in enumerate(sides, 1):
            start(side, number)
        both = all(side.ended for side in sides) and first_signal() is None
        if both:
            for number, side in enumerate(reversed(sides), 3):
                start(side, number)
            if _compile_way(sides) != "same" and first_signal() is None:  # To be sure of what is told.
                for number, side in enumerate(sides, 5):
                    start(side, number)
        measured = Measured()
        notes: list[str] = []
        if both and plan is not None and first_signal() is None:
            measured, notes = _measured(sides, observation, plan, say)
        return _told(sides, measured, show, notes), [side.reports[0] for side in sides]


def _compile_way(sides: Sequence[_Side]) -> str:
    one, other = (told.compile_seconds(side.reports) for side in sides)
    return told.compile_direction(one, other)


def _told(sides: Sequence[_Side], measured: Measured, show: Show, notes: list[str]) -> Upgrade:
    first, second = sides
    comparison = compare(first.reports[0], second.reports[0], show)
    changes = told.fact_changes(comparison, first.reports[0], second.reports[0])
    for one, other in zip(first.reports[1:], second.reports[1:], strict=False):
        again = {each.identity for each in told.fact_changes(compare(one, other, show), one, other)}
        changes = [each for each in changes if each.identity in again]
    measures = told.counted(first.reports[0], second.reports[0], comparison, changes)
    seconds = [told.compile_seconds(side.reports) for side in sides]
    way = told.compile_direction(*seconds)
    if all(seconds):
        measures.append(told.Measure("compile_seconds", min(seconds[0]), min(seconds[1]), way))
    if way != "same":
        times = [f"{min(each):.1f} to {max(each):.1f} s" for each in seconds]
        phase = told.slowest_phase(first.reports[0], second.reports[0]).replace("_", " ")
        changes.append(
            told.Change("compile_time", way, f"compiling from empty caches, most of it in {phase}", None, *times)
        )
    alike = all(each.verdict == "same" for each in measures if each.name in ("graphs", "kernels"))
    more, shown = told.measured_changes(measured, alike)
    if measured.latency_ms is not None and any(each.kind == "speed" for each in shown):
        one_ms, other_ms = measured.latency_ms
        comparison.measurements = [Measurement("in turns", measured.phase, one_ms, other_ms, other_ms / one_ms)]
    return Upgrade(
        before=Interpreter(first.python, first.torch),
        after=Interpreter(second.python, second.torch),
        measures=measures + more,
        changes=told.in_order(changes + shown),
        outputs=measured.outputs,
        comparison=comparison,
        speed=measured.speed,
        settings=told.settings_changed(first.reports[0], second.reports[0]),
        notes=notes,
    )


def _measured(
    sides: Sequence[_Side], observation: Observation, plan: Plan, say: Progress
) -> tuple[Measured, list[str]]:
    """Speed, memory and outputs of what both compiled, and notes on what could not be measured."""
    plans = []
    for side in sides:
        assert side.seen is not None
        ready, source = measure.planned(side.seen, observation.target, replace(plan, python=side.python))
        if ready is None:
            return Measured(), [f"No speed was measured: under {side.torch}, {source.reason}."]
        plans.append(ready)
    streams = Streams(plans[0].label, quiet=plan.quiet, once=True)
    found, notes = Measured(), []
    with WorkerPool(streams, plan.timeout, plans[0].total, python=sides[0].python, sandboxed=plan.sandboxed) as pool:
        turns = _Turns(pool, plans, [side.python for side in sides])
        steps: tuple[tuple[str, Callable[[Measured], None]], ...] = (
            ("memory", turns.memory), ("speed", turns.speed), ("outputs", turns.outputs),
        )  # fmt: skip
        for name, step in steps:
            say(f"comparing {name}")
            try:
                step(found)
            except WorkerFailed as error:
                notes.append(f"Not known, {name}: {error.message}.")
            except Stopped as stop:
                notes.append(f"Not known, {name}: {stop.reason.replace('_', ' ')}.")
                break
    return found, notes


class _Turns:
    """The processes of both interpreters, which make the calls that each has recorded, or build the model anew."""

    def __init__(self, pool: WorkerPool, plans: Sequence[Plan], pythons: Sequence[str]) -> None:
        self._pool = pool
        self._plan = plans[0]
        self._file = str(pool.folder / "values.pt")
        self._random = random.Random(plans[0].seed)
        self._arms = [
            Arm(worker_request(each, each.works[0], _configuration(each)), pool.empty_caches(), python)
            for each, python in zip(plans, pythons, strict=True)
        ]

    def memory(self, found: Measured) -> None:
        """The peak of steady calls, once caches are filled."""
        for arm in self._arms:
            schedule.first_calls(self._pool, arm, memory=False, new=True)
        one, other = (int(schedule.extra(self._pool, arm, "memory")["steady_peak"]) for arm in self._arms)
        found.memory = one, other

    def speed(self, found: Measured) -> None:
        """Pairs of one process of each, that take turns; among them pairs of the first interpreter and itself."""
        pairs: list[Pair] = []
        control: list[Pair] = []
        looks = max(1, self._plan.pairs - MIN_PAIRS)
        for made in range(self._plan.pairs):
            if made >= MIN_PAIRS and enough(pairs, control, looks):
                break
            for kind, arm in self._random.sample([(pairs, self._arms[1]), (control, self._arms[0])], 2):
                seconds = self._plan.seconds / self._plan.pairs
                pair, check, _, _ = schedule.take_turns(self._pool, self._arms[0], arm, seconds, self._random)
                if check.get("invalid"):
                    raise WorkerFailed("internal", str(check["invalid"]))
                kind.append(pair)
        found.speed = speedup(pairs, control)
        medians = [latency([each for pair in pairs for each in side(pair)]) for side in (_first, _second)]
        if medians[0] is not None and medians[1] is not None:
            found.latency_ms = medians[0].p50, medians[1].p50
            found.phase = self._arms[0].request.phase

    def outputs(self, found: Measured) -> None:
        """Each against its own eager and fp64; the second, on the calls of the first, also against its values."""
        one, other = self._arms
        mine = schedule.extra(self._pool, one, "accuracy", save=self._file)
        found.outputs.before = mine.get("verdict")
        against = self._file if Path(self._file).exists() else ""
        same_calls = replace(other, request=replace(other.request, source=one.request.source))
        try:
            theirs = schedule.extra(self._pool, same_calls, "accuracy", against=against)
        except WorkerFailed:  # Its torch, or its Python, cannot read what the other one wrote.
            theirs = schedule.extra(self._pool, other, "accuracy")
        found.outputs = _outputs(mine, theirs)


def _first(pair: Pair) -> list[float]:
    return pair.eager


def _second(pair: Pair) -> list[float]:
    return pair.compiled


def _configuration(plan: Plan) -> Any:
    """What the program compiles, or what we compile of it."""
    return plan.configurations_on(plan.device or "cpu")[0]


def _outputs(mine: dict[str, Any], theirs: dict[str, Any]) -> Outputs:
    found = Outputs(mine.get("verdict"), theirs.get("verdict"))
    across = theirs.get("across")
    reasons = [str(theirs.get("reason") or "")]
    if across is None:
        reasons.append("The values of the two were not compared: the second could not make the calls of the first.")
    elif not across["comparable"]:
        reasons.append("The values of the two are not comparable: the weights are not the same; seed the program.")
    else:
        found.eager_across, found.compiled_across = across["eager"]["verdict"], across["compiled"]["verdict"]
        reasons += [
            f"{name.capitalize()} of the second gives other values than {name} of the first: {across[name]['tensor']}."
            for name in ("eager", "compiled")
            if across[name]["verdict"] == "suspicious"
        ]
    found.note = " ".join(reason for reason in reasons if reason)
    return found
