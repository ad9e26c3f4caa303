"""Runs a target under two interpreters, measures both in turns, and says what differs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynalyze.bench import MIN_PAIRS, measure, schedule
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.schedule import Arm
from dynalyze.bench.stats import enough, latency, speedup
from dynalyze.bench.workers import Stopped, WorkerFailed, WorkerPool
from dynalyze.capture.bench.commands import CompareAnswers
from dynalyze.comparison.reports import compare, found_again, settings_changed
from dynalyze.comparison.types import ComparedInterpreter, LatencyChange, OutputsCompared, Upgrade
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


def upgrade(
    observation: Observation, pythons: tuple[str, str], plan: Plan | None, show: Show, say: Progress
) -> tuple[Upgrade, list[Report]]:
    """What the second interpreter changes for the target, and the report of each first run. Without `plan` nothing is
    timed.

    Each runs it once with an empty cache folder; if something is worse, once more in the other order: what only one
    pair of runs shows is no regression.
    """
    with TemporaryFolder() as folder, ExitStack() as stack:
        runs: list[Observed] = []

        def start(python: str) -> Observed:
            say(f"run {len(runs) + 1} under {python}")
            switches = {**observation.switches, **cache_variables(folder / f"caches{len(runs)}")}
            again = observation.again(runs[0].report) if runs else Again()
            if again.reason:
                raise UsageError(f"{observation.target.spec} cannot be compared: {again.reason}")
            asked = replace(
                observation, python=python, switches=switches, bundle=plan is not None and len(runs) < len(pythons),
                isolation=again.isolation, keep=[str(folder)],
            )  # fmt: skip
            try:
                runs.append(stack.enter_context(observed(asked)))
            except UsageError as error:
                raise UsageError(f"{python}: {error}") from error
            return runs[-1]

        seen = [start(python) for python in pythons]
        first, second = (each.report for each in seen)
        comparison = compare(show(first), show(second))
        both = all(each.outcome.status not in _ENDED for each in (first, second)) and first_signal() is None
        if both and comparison.regressions:
            newer, older = (start(python).report for python in reversed(pythons))
            comparison.regressions = found_again(comparison.regressions, compare(show(older), show(newer)).regressions)
        comparison.differences += settings_changed(first, second)
        versions = [str(each.environment.get("torch") or "") for each in (first, second)]
        found = Upgrade(
            ComparedInterpreter(pythons[0], versions[0]), ComparedInterpreter(pythons[1], versions[1]), comparison
        )
        if both and plan is not None and first_signal() is None:
            _measure(found, seen, observation, plan, say)
        return found, [first, second]


def _measure(found: Upgrade, seen: Sequence[Observed], observation: Observation, plan: Plan, say: Progress) -> None:
    """Note speed and outputs of what both compiled, and what could not be measured."""
    plans, sides = [], (found.before, found.after)
    for side, each in zip(sides, seen, strict=True):
        ready, source = measure.planned(each, observation.target, replace(plan, python=side.python))
        if ready is None:
            found.notes.append(f"No speed was measured: under {side.torch}, {source.reason}.")
            return
        plans.append(ready)
    streams = Streams(plans[0].label, quiet=plan.quiet, once=True)
    with WorkerPool(streams, plan.timeout, plans[0].total, python=sides[0].python, sandboxed=plan.sandboxed) as pool:
        turns = _Turns(pool, plans, [side.python for side in sides])
        for name, step in (("speed", turns.speed), ("outputs", turns.outputs)):
            say(f"comparing {name}")
            try:
                step(found)
            except WorkerFailed as error:
                found.notes.append(f"Not known, {name}: {error.message}.")
            except Stopped as stop:
                found.notes.append(f"Not known, {name}: {stop.reason.replace('_', ' ')}.")
                return


class _Turns:
    """The processes of both interpreters, which repeat the recorded calls, or build the model anew."""

    def __init__(self, pool: WorkerPool, plans: Sequence[Plan], pythons: Sequence[str]) -> None:
        self._pool = pool
        self._plan = plans[0]
        self._file = str(pool.folder / "values.pt")
        self._random = random.Random(plans[0].seed)
        self._arms = [
            Arm(worker_request(each, each.works[0], each.first), pool.empty_caches(), python)
            for each, python in zip(plans, pythons, strict=True)
        ]

    def speed(self, found: Upgrade) -> None:
        """Pairs of both interpreters that take turns; among them pairs of the first and itself."""
        pairs: list[Pair] = []
        control: list[Pair] = []
        looks = max(1, self._plan.pairs - MIN_PAIRS)
        for made in range(self._plan.pairs):
            if made >= MIN_PAIRS and enough(pairs, control, looks):
                break
            with schedule.SharedArm(self._pool, self._arms[0]) as first:
                for kind, arm in self._random.sample([(pairs, self._arms[1]), (control, self._arms[0])], 2):
                    taken = first.take_turns(arm, self._plan.seconds / self._plan.pairs, self._random)
                    if taken.first.check.invalid:
                        raise WorkerFailed("internal", taken.first.check.invalid)
                    kind.append(taken.pair)
        found.speed = speedup(pairs, control)
        one = latency([each for pair in pairs for each in pair.eager])
        other = latency([each for pair in pairs for each in pair.compiled])
        if one is not None and other is not None:
            found.latency_ms = one.p50, other.p50
            phase = self._arms[0].request.phase
            found.comparison.measurements = [LatencyChange("in turns", phase, one.p50, other.p50, other.p50 / one.p50)]

    def outputs(self, found: Upgrade) -> None:
        """Each vs its own eager and fp64; the second, on the calls of the first, also vs its values."""
        one, other = self._arms
        mine = schedule.extra(self._pool, one, CompareAnswers(save=self._file))
        found.outputs.before = mine.get("verdict")
        against = self._file if Path(self._file).exists() else ""
        same_calls = replace(other, request=replace(other.request, source=one.request.source))
        try:
            theirs = schedule.extra(self._pool, same_calls, CompareAnswers(against=against))
        except WorkerFailed:  # Its torch, or its Python, cannot read what the other one wrote.
            theirs = schedule.extra(self._pool, other, CompareAnswers())
        found.outputs = _outputs(mine, theirs)


def _outputs(mine: dict[str, Any], theirs: dict[str, Any]) -> OutputsCompared:
    found = OutputsCompared(mine.get("verdict"), theirs.get("verdict"))
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
