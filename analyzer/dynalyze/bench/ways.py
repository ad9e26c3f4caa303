"""Measures ways of compiling for a plan, each to its end before the next: what a budget cuts are whole ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dynalyze.bench import schedule
from dynalyze.bench.choice import Wish, points_of
from dynalyze.bench.plan import Plan
from dynalyze.bench.records import ConfigRun, measurement
from dynalyze.bench.run import Benchmarks, WorkBench, run_bench
from dynalyze.bench.workers import WorkerFailed


class Ways(WorkBench):
    """One workload in every way: cold and warm starts, pairs with eager, and the best way's answers."""

    wish = Wish()

    def _rows(self, device: str) -> list[ConfigRun]:
        """Of what makes sense on a device without `fullgraph`: that compiles what `default` does, or fails."""
        asked = self._plan.configurations is not None
        return [row for row in super()._rows(device) if asked or row.name != "fullgraph"]

    def _measure(self) -> None:
        self._pair(self.eager)
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
            self._pair(row)
        rows = [self.eager, *(row for row in self.rows if row.usable)]
        for _ in range(1, self._plan.pairs):
            for row in self._random.sample(rows, len(rows)):
                if row.usable:
                    self._pair(row)
        for row in rows:
            row.timed = True
        points = points_of([measurement(row, self.eager) for row in rows])
        chosen = self.wish.best(points, self.eager.load.calls)
        for row in self.rows:
            if chosen is not None and row.name == chosen.name:
                row.accuracy = self._compared(row)


class PaddedCall(WorkBench):
    """One workload, whose calls are of a size to pad to, compiled whole."""

    def _measure(self) -> None:
        for row in self.rows:
            self._first_calls(row)
        self._pairs()


def measure_ways(plan: Plan, wish: Wish) -> Benchmarks:
    """Measure the first workload in every way, and the others, which are sizes to pad to."""

    def of_a_work(plan: Plan, work: Any, *more: Any) -> WorkBench:
        if len(plan.works) > 1:  # Further pairs would cost the other sizes.
            plan = replace(plan, pairs=1, seconds=plan.seconds / plan.pairs)
        if work is not plan.works[0]:
            return PaddedCall(replace(plan, configurations=(plan.default,), adds_written=False), work, *more)
        ways = Ways(plan, work, *more)
        ways.wish = wish
        return ways

    return run_bench(plan, of_a_work=of_a_work)
