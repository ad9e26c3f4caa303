"""Runs a benchmark: every configuration of every workload in fresh processes, and the records of the results."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from dynalyze.bench import MIN_PAIRS, records, schedule
from dynalyze.bench.extras import RowBench, extras
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.progress import Kind, Progress
from dynalyze.bench.records import ConfigRun
from dynalyze.bench.schedule import Arm, SharedArm
from dynalyze.bench.stats import enough
from dynalyze.bench.step_memory import memory_of
from dynalyze.bench.workers import Stopped, WorkerFailed, WorkerPool
from dynalyze.capture.bench.commands import CheckOperators, CompareAnswers
from dynalyze.capture.bench.protocol import NOT_REPEATED, Work
from dynalyze.launch.interrupts import how_it_ended
from dynalyze.launch.streams import Streams, progress_line
from dynalyze.report.audit import OperatorCheck
from dynalyze.report.measurements import Accuracy, Measurement
from dynalyze.text.amounts import listed
from dynalyze.text.errors import UsageError

Found = TypeVar("Found")
BenchStatus = Literal["complete", "failed", "timed_out", "interrupted"]
_MOST_EXTRA = 2.0  # Seconds of timed passes for what features measure of one configuration.
_ANSWERS_SHARE = 0.4  # Of a budget: how long answers may take to compare.
_OPERATORS_SECONDS = 60.0  # For checking the custom operators of a workload: no new one is begun after it.
_PATIENCE = {"operators": 3 * _OPERATORS_SECONDS}

_STOPPED = {"interrupted": "interrupted", "out_of_time": "the time was up"}


@dataclass
class Benchmarks:
    """The results of a benchmark. `environment` is what the eager process found about torch and the machine.

    `status` is failed if eager itself failed, timed_out if a process reached its limit. `unchecked` is why no answers
    were compared, if they should have been.
    """

    measurements: list[Measurement] = field(default_factory=list)
    accuracy: list[Accuracy] = field(default_factory=list)
    unchecked: str = ""
    operators: list[OperatorCheck] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    status: BenchStatus = "complete"
    message: str = ""


def run_bench(
    plan: Plan, progress: Callable[[str], None] | None = None, of_a_work: MakeWorkBench | None = None, *,
    first: Callable[[], object] | None = None, pool: WorkerPool | None = None,
) -> Benchmarks:  # fmt: skip
    """Measure what the plan asks for; `progress` gets lines to show, instead of standard error. `of_a_work` decides
    what is measured of a workload, and in which order. `first` is called before, while imports begin, outside the
    budget. `pool` is a `pool_for` this plan that the caller keeps. Raises UsageError, before anything is measured, if
    the plan cannot be run.
    """
    with nullcontext(pool) if pool else pool_for(plan) as pool:
        show, every = progress_line(pool.streams)
        if first is not None:
            compiled = plan.configurations_on(plan.device or "cpu")
            pool.prepare(worker_request(plan, plan.works[0], compiled[0] if compiled else plan.eager))
            first()
        line = Progress(progress or show, every, plan.seconds / plan.pairs, total=plan.total)
        pool.begin(plan.total, line.tick)
        return run_in(pool, plan, line, of_a_work)


def pool_for(plan: Plan) -> WorkerPool:
    streams = Streams(plan.label, quiet=plan.quiet, once=True)
    return WorkerPool(streams, plan.timeout, python=plan.python, sandboxed=plan.sandboxed)


def run_in(pool: WorkerPool, plan: Plan, progress: Progress, of_a_work: MakeWorkBench | None = None) -> Benchmarks:
    generator = random.Random(plan.seed)
    parts = [(of_a_work or WorkBench)(plan, work, pool, progress, generator) for work in plan.works]
    progress.ahead = lambda: sum((part.ahead() for part in parts), Counter())
    found, stopped = Benchmarks(), ""
    try:
        for part in parts:
            part.run()
    except Stopped as stop:
        stopped = stop.reason
        for part in parts:
            part.stop(_STOPPED[stop.reason])
    for part in parts:
        rows = part.measured()
        found.measurements += [records.measurement(row, part.eager) for row in rows]
        found.accuracy += [record for row in part.rows if (record := records.accuracy(row)) is not None]
        found.unchecked = found.unchecked or part.unchecked()
        found.operators += records.operators(part.eager)
        found.environment = found.environment or records.environment(part.eager)
        found.notes += part.eager.load.notes if rows else []
        found.notes += [late] if (late := part.unmeasured()) else []
    found.notes = list(dict.fromkeys(found.notes))
    late_rows = [row for part in parts for row in (part.eager, *part.rows) if row.failure == "timed_out"]
    failed = [part.eager for part in parts if part.eager.failure not in (None, *NOT_REPEATED)]
    if stopped == "interrupted":
        found.status, found.message = "interrupted", how_it_ended()
    elif late_rows:
        found.status, found.message = "timed_out", f"{late_rows[0].configuration.name}: {late_rows[0].problem}."
    elif failed:
        found.status, found.message = "failed", f"The eager run failed: {failed[0].problem}"
    return found


class WorkBench:
    """One workload: eager, and every configuration compared with it."""

    def __init__(self, plan: Plan, work: Work, pool: WorkerPool, progress: Progress, generator: random.Random) -> None:
        self._plan = plan
        self._work = work
        self._pool = pool
        self._progress = progress
        self._random = generator
        self._caches: dict[str, Path | None] = {}
        self._recorded_seconds = self._longest_round = 0.0
        self.eager = ConfigRun(plan.eager, work)
        self.rows = self._rows(plan.device or "cpu")

    def run(self) -> None:
        """Measure row by row; raises Stopped, and keeps what was measured until then."""
        if self._plan.in_turns is not None:
            took = self.rows[0].compile_seconds
            self.eager, row = records.rows_in_turns(self._plan.in_turns, self._plan.first, records.SLOW_TO_TRACE)
            self.rows = [row]
            row.compile_seconds = took
            row.accuracy = row.accuracy if self._plan.accuracy else None
            self._measure()
            return
        self._first_calls(self.eager)
        if self.eager.problem:
            for row in self.rows:
                if self.eager.failure in NOT_REPEATED:  # The same for every row.
                    row.fail(self.eager.failure, self.eager.problem)
                else:
                    row.problem = "not measured: there is no eager run to compare with"
                if self.eager.failure == "eager" and self._plan.accuracy and row.configuration.compile:
                    # Eager refuses the calls: does compiled? If it does, there is nothing to say of its answers.
                    answer = self._compared(row)
                    row.accuracy = answer if answer and answer.get("contracts") else None
            return
        self.rows = self._rows(self.eager.load.device)
        self._measure()

    def _measure(self) -> None:
        """Measure every row, once eager is known to run."""
        for row in self.rows:
            if self._plan.recorded_first and self._budget is not None:  # Else the first calls are from empty caches.
                self._record(row)
            if row.first is None and not self._first_from_pairs:
                self._first_calls(row)
        if not self._plan.answers_first:
            self._pairs()
        for row in (self.eager, *self.rows):
            if row.usable:
                self._extras(row)
            elif not row.problem and row.compiled:  # Its times would mislead; what its first calls answer is of use.
                self._answers(row)
        if self._plan.answers_first:
            self._pairs()
        for row in self.rows:
            self._measure_more(row)

    def stop(self, reason: str) -> None:
        """Note what each row lacks because the benchmark ended early."""
        if self._budget is not None and reason != _STOPPED["interrupted"]:
            if not self._has_speed:  # Too few for a figure: none is better than one that nobody may quote.
                for row in (self.eager, *self.rows):
                    row.pairs, row.eager_samples = [], []
            return  # `measured` and `unmeasured` say it.
        for row in (self.eager, *self.rows):
            if not row.problem and not row.pairs:
                row.untimed = f"{reason} before it was timed"
            elif not row.problem and not row.timed:
                row.notes.append(f"{reason} after {len(row.pairs)} of {self._plan.pairs} pairs of processes")

    def measured(self) -> list[ConfigRun]:
        """The rows to report. If a budget was too short for a verdict on speed, those that a feature measured."""
        rows = [self.eager, *self.rows]
        if self._budget is None or self._has_speed:
            return rows
        return [row for row in rows if row.pairs or any(not part.problem for part in row.parts.values())]

    @property
    def _has_speed(self) -> bool:
        return all(row.timed or row.problem or not row.usable or len(row.pairs) >= MIN_PAIRS for row in self.rows)

    def unmeasured(self) -> str:
        """A note on what was not measured, and how to measure it; "" if nothing is missing."""
        if self._budget is None or self._pool.interrupted:
            return ""
        rows = [row for row in self.rows if row.usable]
        missing = ["answers"] if self._plan.accuracy and any(row.accuracy is None for row in rows) else []
        late = self._plan.recorded_first and any(not row.recorded for row in rows)  # Else nothing broke.
        if not self._has_speed:
            missing = ["speed"]
        what = listed([*missing, *(each.what for each in extras() if late)])
        more = f"`{self._plan.more_time}`"
        if what:
            return f"{what[:1].upper()}{what[1:]}: not measured in {self._budget:g} s: {more}"
        if any(row.cold is None and row.compile_seconds is None for row in rows):
            return f"The compile cost from empty caches is not known: this run found them filled: {more}"
        return ""

    def unchecked(self) -> str:
        """Why the answers of a row were not compared; "" if all were, or none should be."""
        if not self._plan.accuracy or all(row.accuracy is not None for row in self.rows):
            return ""
        if self._pool.interrupted:
            return "interrupted"
        failed = next((row.problem for row in (self.eager, *self.rows) if row.failure is not None), "")
        return failed or (f"no time left of {self._budget:g} s" if self._budget is not None else "")

    def ahead(self) -> Counter[Kind]:
        """The known steps still to be done, counted by kind."""
        rows, plan = [row for row in (self.eager, *self.rows) if not row.problem], self._plan
        return Counter(
            {
                "first calls": sum(row.first is None for row in rows),
                "pair": sum(plan.pairs - len(row.pairs) for row in rows if not row.timed and row.usable),
                "memory": sum(plan.memory and row.memory is None for row in rows),
                "extra": sum(
                    each.ahead(row.parts[each.field], self._budget)
                    for row in rows
                    for each in extras()
                    if each.field in row.parts
                ),
                "recorded": sum(self._records(row) for row in rows),
                "accuracy": sum(plan.accuracy and row.accuracy is None for row in rows if row.configuration.compile),
            }
        )

    def _records(self, row: ConfigRun) -> bool:
        """Whether a recorded process of the row is needed."""
        wanted = self._plan.recorded and (extras() or self._work.phase == "train")
        return bool(wanted and row.configuration.compile and not row.recorded)

    def _rows(self, device: str) -> list[ConfigRun]:
        # The run that is explained was the first to compile it; without a budget a process of its own is.
        took = self._plan.cold_seconds if self._budget is not None else None
        return [ConfigRun(each, self._work, compile_seconds=took) for each in self._plan.configurations_on(device)]

    def _first_calls(self, row: ConfigRun) -> None:
        compiles, budget = row.configuration.compile, self._budget
        try:
            with self._progress.doing("first calls", self._named(row, "first calls")):
                row.first = schedule.first_calls(
                    self._pool, self._arm(row), memory=self._plan.memory and compiles, new=compiles and not budget,
                    budget=budget, step_memory=self._plan.recorded and not compiles and self._work.phase == "train",
                )  # fmt: skip
            row.cold = None if budget and compiles else row.first
        except WorkerFailed as error:
            if error.kind == "misuse" and row is self.eager:
                raise UsageError(error.message) from error
            row.fail(error.kind, error.message)

    def _pairs(self) -> None:
        fewest = 1 if self.rows else MIN_PAIRS  # without anything to compare with, what eager takes is still reported
        for made in range(self._plan.pairs):
            for row in self.rows:
                if not row.usable:
                    row.timed = True
                elif not row.timed and len(row.pairs) >= MIN_PAIRS:
                    # An interim look: quiet machines need not go on to the last pair. None is begun that cannot end.
                    row.timed = enough(row.pairs, self.eager.pairs, looks=max(1, self._plan.pairs - MIN_PAIRS))
                    row.timed = row.timed or (
                        self._budget is not None and self._pool.seconds_left < self._longest_round
                    )
            todo = [row for row in self.rows if not row.timed]
            if not todo and (made >= fewest or self.eager.timed):
                break
            began = time.monotonic()
            self._round([self.eager, *todo])
            self._longest_round = max(self._longest_round, time.monotonic() - began)
            for row in todo if self._first_from_pairs else ():
                # Further pairs are worth less than the answers, where these are not known by now.
                if len(row.pairs) == MIN_PAIRS and row.usable and row.accuracy is None:
                    self._answers(row)
        for row in (self.eager, *self.rows):
            row.timed = True

    def _round(self, rows: Sequence[ConfigRun]) -> None:
        """A pair of each row with the same eager process, in random order; with another where that one failed."""
        waiting = self._random.sample(rows, len(rows))
        while waiting:
            with schedule.SharedArm(self._pool, self._arm(self.eager)) as eager:
                while waiting and self._pair(waiting.pop(), eager):
                    pass

    def _pair(self, row: ConfigRun, eager: SharedArm) -> bool:
        """A pair of a row with a process of eager; returns whether that lives, as far as is known."""
        in_budget = self._first_from_pairs and row.configuration.compile
        try:
            with self._progress.doing("pair", self._named(row, f"pair {len(row.pairs) + 1} of processes")):
                taken = eager.take_turns(
                    self._arm(row), self._plan.seconds / self._plan.pairs, self._random, self._budget,
                    answers=in_budget and self._plan.accuracy and row.accuracy is None,
                )  # fmt: skip
        except WorkerFailed as error:
            if row is self.eager and row.pairs:
                row.notes.append(f"a pair of eager processes failed: {error.message}")
                return False
            whose = "the eager process beside it: " if error.who == self.eager.name != row.name else ""
            row.fail(error.kind, whose + error.message)
            return error.who != self.eager.name
        row.pairs.append(taken.pair)
        self.eager.eager_samples += taken.pair.eager
        if row is self.eager:
            self.eager.eager_samples += taken.pair.compiled
        row.accuracy = row.accuracy or taken.first.accuracy
        if not (in_budget or taken.forked):
            row.warm = row.warm or taken.first.warm
        if row.first is None:
            row.first = taken.first
        else:
            row.checks.append(taken.first.check)
        return True

    @property
    def _first_from_pairs(self) -> bool:
        """Whether the first calls of a row are those of its first pair."""
        return self._budget is not None and not self._plan.answers_first

    def _extras(self, row: ConfigRun) -> None:
        if self._plan.operators and row is self.eager and row.operators is None:
            checking = CheckOperators(_OPERATORS_SECONDS)
            row.operators = self._extra(
                row, "operators", lambda arm, left: schedule.extra(self._pool, arm, checking, left)
            )
        if self._plan.memory:
            found = self._extra(row, "memory", lambda arm, patience: schedule.peaks(self._pool, arm, patience))
            if found is not None:
                row.memory, row.warm = found[0], row.warm or found[1]
        self._answers(row)
        if self._records(row):
            self._record(row)

    def _answers(self, row: ConfigRun) -> None:
        if self._plan.accuracy and row.configuration.compile and not row.compared:
            row.accuracy = row.accuracy or self._compared(row)
            row.compared = True
            self._vary_inputs(row)

    def _vary_inputs(self, row: ConfigRun) -> None:
        """The accuracy test on other inputs, if the program's own are right; it keeps what it finds in time."""
        right = row.accuracy is not None and row.accuracy["verdict"] not in ("suspicious", "not comparable")
        if not self._plan.vary_inputs or row.accuracy is None or not right:
            return
        found: list[dict[str, Any]] = []
        row.accuracy["variants"] = found
        try:
            with self._progress.doing("inputs", self._named(row, "answers to other inputs")):
                found.extend(schedule.varied(self._pool, self._arm(row), self._plan.vary_inputs))
        except WorkerFailed as error:
            row.notes.append(f"answers to other inputs are not known: {error.message}")

    def _record(self, row: ConfigRun) -> None:
        """Ask a recorded process what features want, then what a training step keeps."""
        seconds = min(_MOST_EXTRA, self._plan.seconds / 2) / (2 if self._budget else 1)
        began, eager, row.recorded = time.monotonic(), self.eager.first, True
        try:
            with (
                self._progress.doing("recorded", self._named(row, "where the time of a call goes")),
                schedule.recorded(self._pool, self._arm(row), self._budget) as process,
            ):
                row.parts.update({each.field: each.measure(process, seconds, row.notes) for each in extras()})
                if eager is not None and eager.step_memory is not None:
                    steps = schedule.step_memory_of(process.worker)
                    row.step_memory = memory_of(eager.step_memory, steps, process.run)
            row.first = row.first or process.first
        except WorkerFailed as error:
            row.parts.update({each.field: each.failed(error.message) for each in extras()})
        self._recorded_seconds = time.monotonic() - began

    def _measure_more(self, row: ConfigRun) -> None:
        if not (row.parts and row.usable):
            return
        bench = RowBench(
            self._pool, self._arm(row), self.eager.pairs, row.load.calls,
            min(_MOST_EXTRA, self._plan.seconds / 2), self._recorded_seconds, self._budget, self._random,
            lambda what: self._progress.doing("extra", self._named(row, what)),
        )  # fmt: skip
        for each in extras():
            each.measure_more(row.parts[each.field], bench)

    def _extra(
        self, row: ConfigRun, kind: Literal["memory", "accuracy", "operators"], ask: Callable[[Arm, float], Found],
        without: Callable[[str], Found | None] = lambda reason: None,
    ) -> Found | None:  # fmt: skip
        """What a process of its own answers; if it fails, the times are kept."""
        try:
            with self._progress.doing(kind, self._named(row, kind)):
                shared = self._budget is not None and self._plan.in_turns is None  # Else nothing comes after it.
                patience = (self._budget or 0.0) * _ANSWERS_SHARE if shared else math.inf
                return ask(self._arm(row), min(patience, _PATIENCE.get(kind, math.inf)))
        except WorkerFailed as error:
            if error.kind == "timed_out" and self._budget is not None:
                return None  # `unchecked` says it.
            what = "whether custom operators are what they are registered as" if kind == "operators" else kind
            row.notes.append(f"{what} is not known: {error.message}")
            return without(error.message)

    def _compared(self, row: ConfigRun) -> dict[str, Any] | None:
        return self._extra(
            row, "accuracy", lambda arm, patience: schedule.extra(self._pool, arm, CompareAnswers(), patience),
            lambda reason: {"verdict": "not comparable", "reason": reason},
        )  # fmt: skip

    def _arm(self, row: ConfigRun) -> Arm:
        others = [asdict(other.configuration) for other in self.rows]
        source = self._plan.source
        # Where the first run of a program does not know which calls it made, its first process here does.
        if source.get("kind") == "program" and source.get("made") is None:
            source = {**source, "made": self.eager.load.made}
        request = worker_request(replace(self._plan, source=source), self._work, row.configuration)
        request = replace(request, extra={"check": others} if self.eager.first is None else {})
        if row.name not in self._caches:
            self._caches[row.name] = self._pool.empty_caches() if self._budget is None else None
        return Arm(request, self._caches[row.name])

    @property
    def _budget(self) -> float | None:
        return self._plan.total if self._plan.more_time else None

    def _named(self, row: ConfigRun, what: str) -> str:
        sizes = [f"{name} {size}" for name, size in self._work.sizes.items()]
        return " ".join([row.name, *([self._work.phase] if len(self._plan.works) > 1 else []), *sizes]) + f": {what}"


MakeWorkBench = Callable[[Plan, Work, WorkerPool, Progress, random.Random], WorkBench]
