"""Measures what a plan of compiling needs, within a budget of seconds: the cheap and decisive points first, and nothing
that cannot win any more.

Each way of compiling is started twice, with empty caches and with those that the first start left, and then takes turns
with eager in a pair of processes. What is behind by more than pairs differ gets no further pair.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from dynalyze.bench import choice, schedule
from dynalyze.bench.choice import Point, Question
from dynalyze.bench.configurations import DEFAULT, configuration
from dynalyze.bench.plan import Plan
from dynalyze.bench.progress import Progress
from dynalyze.bench.records import ConfigRun, measurement
from dynalyze.bench.run import Benchmarks, WorkBench, run_bench
from dynalyze.bench.workers import WorkerFailed, WorkerPool
from dynalyze.capture.bench.protocol import Configuration, Work
from dynalyze.report.plans import NotMeasured

LAYERS, PARTS = "layers", "parts"
"""Ways that are known once the model was looked at: its layers, and in the place of a model that breaks its parts that
do not.
"""

_ON_CPU = (LAYERS, "regional", "default", "dynamic=on")
_ON_CUDA = (*_ON_CPU, "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")

_MERCY, _GRACE = 2.0, 3.0
"""Until the first calls of a way are given up: times what all calls take in the best way so far, and seconds more."""

_LONG = 60.0
"""Seconds of eager from which on the whole comes before its parts: of many calls it saves most."""

_WIDEST = 0.4
"""How far behind the best a way may be after one pair to get another one; after n pairs the n-th part of it."""


@dataclass
class Found:
    """What was found beside the measurements: lines that compile a way, and why others were not measured."""

    lines: dict[str, str] = field(default_factory=dict)
    not_measured: list[NotMeasured] = field(default_factory=list)


def ways(device: str, default: Configuration) -> tuple[Configuration, ...]:
    """What may be worth compiling on a device, the cheapest first; `default` has the options that hold for all."""
    names = _ON_CUDA if device.startswith("cuda") else _ON_CPU
    if default.backend != DEFAULT.backend:
        names = _ON_CPU
    return tuple(dict.fromkeys(way(name, default) for name in names))


def way(name: str, default: Configuration) -> Configuration:
    """One way by its name, with the options that hold for all where it has none of its own."""
    found = replace(DEFAULT, name=name) if name in (LAYERS, PARTS) else configuration(name)
    options = {"backend", "mode", "dynamic", "fullgraph"}
    unset = {each: getattr(default, each) for each in options if getattr(found, each) == getattr(DEFAULT, each)}
    return replace(found, **unset)


def measure_ways(plan: Plan, question: Callable[[int], Question], versions: dict[str, int], found: Found) -> Benchmarks:
    """Measure what the question wants to know. It is asked with the number of calls in a pass."""
    result = run_bench(plan, of_a_work=partial(Planner, question, versions, found))
    left_out = {each.configuration for each in found.not_measured}
    result.measurements = [each for each in result.measurements if each.configuration not in left_out]
    return result


class Planner(WorkBench):
    """One workload."""

    def __init__(
        self, question: Callable[[int], Question], versions: dict[str, int], found: Found,
        plan: Plan, work: Work, pool: WorkerPool, progress: Progress, generator: random.Random,
    ) -> None:  # fmt: skip
        self._ask_for = question
        self._versions = versions
        self._found = found
        super().__init__(plan, work, pool, progress, generator)

    def stop(self, reason: str) -> None:
        """Leave out what was not measured when the time was up."""
        for row in self.rows:
            if not row.problem and not row.pairs:
                self._leave_out(row, f"{reason} before it was measured")
        super().stop(reason)

    def _rows(self, device: str) -> list[ConfigRun]:
        plan = self._plan
        if plan.configurations is None:
            plan = replace(plan, configurations=ways(device, plan.default))
        return [ConfigRun(each, self._work) for each in plan.configurations_on(device)]

    def _measure(self) -> None:
        self._pair(self.eager)
        self._know_parts()
        eager = self._best()
        if eager is not None and self._question.lasts(eager) > _LONG:
            self.rows.sort(key=lambda row: row.name in (LAYERS, "regional"))
        for row in self.rows:  # Which may grow meanwhile.
            if not row.problem:
                self._look_at(row)
        for made in range(1, self._plan.pairs):
            rows = self._rivals(_WIDEST / made)
            for row in self._random.sample(rows, len(rows)):
                self._pair(row)
        for row in (self.eager, *self.rows):
            row.timed = True
        self._look_at_answers()

    def _know_parts(self) -> None:
        """Give the ways in parts their regions; leave out those that this model does not have."""
        asked = {row.name: row for row in self.rows if row.name in (LAYERS, "regional", PARTS)}
        try:
            parts = schedule.extra(self._pool, self._arm(self.eager), "parts")["parts"] if asked else {}
        except WorkerFailed as error:
            parts = {}
            self.eager.notes.append(f"which parts there are is not known: {error.message}")
        for name, row in asked.items():
            if name in parts:
                self._found.lines[name] = parts[name]["lines"]
                if name == LAYERS:
                    row.configuration = replace(row.configuration, regions=parts[name]["regions"])
            elif name == PARTS:
                self.rows.remove(row)  # It is looked for where the whole breaks.
            else:
                self.rows.remove(row)
                self._leave_out(row, "the model has no layers that could be compiled one by one"
                                if name == LAYERS else "the model has no list of repeated blocks")  # fmt: skip

    def _look_at(self, row: ConfigRun) -> None:
        """Start it cold and warm, and time it once beside eager."""
        leading = self._best()
        patience = _MERCY * self._question.lasts(leading) + _GRACE if leading is not None else float("inf")
        try:
            with self._progress.doing("first calls", self._named(row, "first calls")):
                row.first = row.cold = schedule.first_calls(
                    self._pool, self._arm(row), memory=False, new=True, patience=patience
                )
        except WorkerFailed as error:
            if error.kind == "timed_out" and patience < self._plan.timeout and leading is not None:
                self._leave_out(
                    row, f"it cannot win: its first calls took more than {patience:.0f} s, and with {leading.name} "
                    "everything is done by then"
                )  # fmt: skip
            else:
                row.fail(error.kind, error.message)
            return
        if row.configuration.compile and not row.configuration.regions and not row.configuration.region:
            counts = row.counts()
            if counts is not None and counts.graph_breaks:
                self._add_parts(row)
        if not row.usable:
            return
        try:
            with self._progress.doing("cold start", self._named(row, "a second start")):
                row.warm = schedule.second_start(self._pool, self._arm(row))
        except WorkerFailed as error:
            row.notes.append(f"a second start is not known: {error.message}")
        self._pair(row)

    def _add_parts(self, whole: ConfigRun) -> None:
        """Where the model breaks, the largest of its parts that do not are another way."""
        if any(row.name == PARTS for row in self.rows) or self._plan.configurations is not None:
            return
        arm = self._arm(whole)
        try:
            with (
                self._progress.doing("accuracy", self._named(whole, "parts without graph breaks")),
                self._pool.worker(arm.request, arm.caches) as worker,
            ):
                worker.ask("load")
                problem = worker.ask("baseline")["problem"]
                instead = {} if problem else worker.ask("regions", changes=[], settings={})
        except WorkerFailed as error:
            whole.notes.append(f"which of its parts do not break is not known: {error.message}")
            return
        regions = instead.get("regions") or {}
        if not regions or any(row.configuration.regions == regions for row in self.rows):
            return
        self._found.lines[PARTS] = instead["lines"]
        self.rows.append(ConfigRun(replace(whole.configuration, name=PARTS, regions=regions), self._work))

    def _rivals(self, margin: float) -> list[ConfigRun]:
        """The rows that another pair may change the choice of; all of them where nothing was asked for."""
        rows = [row for row in self.rows if row.pairs and row.usable]
        if not self._question.asked:
            return rows
        near = {point.name for point in choice.rivals(self._points(), self._question, margin)}
        return [row for row in rows if row.name in near] if len(near) > 1 else []

    def _look_at_answers(self) -> None:
        """Of the choice alone."""
        chosen = self._best()
        for row in self.rows:
            if chosen is not None and row.name == chosen.name and row.accuracy is None:
                row.accuracy = self._extra(row, "accuracy", {"verdict": "not comparable"})

    def _points(self) -> list[Point]:
        rows = [row for row in (self.eager, *self.rows) if row.pairs]
        return choice.points_of([measurement(row, self.eager) for row in rows], self._versions)

    def _best(self) -> Point | None:
        return choice.best(self._points(), self._question)

    @property
    def _question(self) -> Question:
        return self._ask_for(self.eager.load.get("calls") or 1)

    def _leave_out(self, row: ConfigRun, reason: str) -> None:
        row.problem = reason
        self._found.not_measured.append(NotMeasured(row.name, reason))


def names(texts: str, default: Configuration) -> tuple[Configuration, ...]:
    """The ways that `--configs` names."""
    wanted = [name for part in texts.split(",") if (name := part.strip()) and name != "eager"]
    return tuple(dict.fromkeys(way(name, default) for name in wanted))
