"""What the attention matrix runs: the question what can be had here, and the processes of each cell."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from dynalyze.audit.attention.cells import Combination, Recorded
from dynalyze.bench import schedule
from dynalyze.bench.configurations import DEFAULT, EAGER
from dynalyze.bench.measure import rebuilt_source
from dynalyze.bench.plan import Plan, Work, worker_request
from dynalyze.bench.run import run_bench
from dynalyze.bench.schedule import Arm
from dynalyze.bench.stats import MIN_PAIRS
from dynalyze.bench.workers import Stopped, WorkerFailed, WorkerPool
from dynalyze.capture.bench.protocol import LANGUAGE_PHASES, Configuration, WorkerRequest
from dynalyze.fleet.items import Item
from dynalyze.fleet.statuses import RunEnd, Verdict, after_eager, judge_run
from dynalyze.launch.observe import CompileOptions, Observation, Observed, observed
from dynalyze.launch.spec import TargetSpec
from dynalyze.report.measurements import Measurement
from dynalyze.text.errors import UsageError

STATIC = "static"
_MOST_SECONDS = 3.0
"""Timed seconds of a combination: there are many of them."""


@dataclass(frozen=True)
class Available:
    """What the target's own process told. `names` are the attentions to try, in order.

    `refused` says of some of them why they cannot be had here, `replaced` what is taken in their place.
    """

    model: str
    own_attention: str
    own_dtype: str
    device: str
    names: tuple[str, ...]
    unsupported: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)


class ProcessTrials:
    """The trials of a target under a plan, in a pool of workers that is open."""

    def __init__(self, target: TargetSpec, plan: Plan, pool: WorkerPool) -> None:
        self._target = target
        self._plan = plan
        self._pool = pool
        self._end = None if plan.total is None else time.monotonic() + plan.total

    def available(self, names: tuple[str, ...], dtypes: tuple[str, ...]) -> Available:
        """Ask a process of the target, as it is without us, what its attention can be.

        Raises:
            UsageError: it is no model of transformers, or what was asked for is unknown.
            WorkerFailed: the target itself fails.
        """
        request = self._request(self._target, self._plan.dtype, EAGER)
        request.extra["check"] = [vars(self._configuration)]
        try:
            with self._pool.worker(request, self._pool.empty_caches()) as worker:
                load = worker.ask("load")
                told = worker.ask("attention", names=list(names), dtypes=list(dtypes))
        except WorkerFailed as error:
            if error.kind == "misuse":
                raise UsageError(error.message) from error
            raise
        asked: dict[str, dict[str, str]] = told["names"]
        return Available(
            model=told["model"], own_attention=told["own"], own_dtype=load["dtype"], device=load["device"],
            names=tuple(asked), unsupported=() if names else tuple(told["unsupported"]),
            refused={name: each["refused"] for name, each in asked.items() if each["refused"]},
            replaced={name: each["used"] for name, each in asked.items() if each["used"] not in ("", name)},
        )  # fmt: skip

    def recorded(self, combination: Combination) -> Recorded:
        """Run it once, recorded. A UsageError is of this combination: the target as such was tried before."""
        self._pool.attend()
        observation = self._observation(combination)
        with observed(observation) as seen:
            if seen.report.outcome.status == "interrupted":
                raise Stopped("interrupted")
            if seen.report.outcome.status == "timed_out":
                self._left()  # The end of the whole is no fault of this combination.
            return Recorded(seen.report, self._verdict(observation, seen))

    def accuracy(self, combination: Combination) -> dict[str, Any]:
        """The fp64-anchored test in a process of its own."""
        request = self._of(combination, self._configuration)
        return schedule.extra(self._pool, Arm(request, self._pool.empty_caches()), "accuracy")

    @property
    def timed(self) -> bool:
        return self._plan.seconds > 0

    def speed(self, combination: Combination) -> Measurement | None:
        """As few pairs of processes as can show a difference, and a few seconds for all of them."""
        work = replace(self._work, shape=())
        plan = replace(
            self._plan, source=rebuilt_source(self._target.with_attention(combination.attention)),
            configurations=(self._configuration,), works=(work,), written=None, adds_written=False, rerun=False,
            dims=(), dtype=combination.dtype, static_cache=combination.cache == STATIC, pairs=MIN_PAIRS,
            seconds=min(self._plan.seconds, _MOST_SECONDS), total=self._left(), accuracy=False, memory=False,
        )  # fmt: skip
        found = run_bench(plan)
        if found.status == "interrupted":
            raise Stopped("interrupted")
        return next((each for each in found.measurements if each.configuration == self._configuration.name), None)

    @property
    def _configuration(self) -> Configuration:
        return next(iter(self._plan.configurations or (self._plan.default,)), DEFAULT)

    @property
    def _work(self) -> Work:
        return self._plan.works[0]

    def _left(self) -> float | None:
        """Seconds until the whole has to end; raises Stopped where there are none."""
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            raise Stopped("out_of_time")
        return left

    def _observation(self, combination: Combination) -> Observation:
        plan, target, how = self._plan, self._target.with_attention(combination.attention), self._configuration
        if target.asked is not None:
            static = combination.cache == STATIC
            asked = replace(
                target.asked, static_cache=static, phase=self._work.phase, batch=self._work.batch,
                sequence=self._work.sequence, new_tokens=plan.new_tokens,
            )  # fmt: skip
            target = replace(target, asked=asked)
        options = CompileOptions(
            how.backend, how.mode, how.dynamic, how.fullgraph, self._train, plan.device, combination.dtype,
            given=("--attention-matrix",),
        )  # fmt: skip
        timeout = min(plan.timeout, self._left() or plan.timeout)
        return Observation(target, options, timeout, python=plan.python, quiet=plan.quiet)

    @property
    def _train(self) -> bool | None:
        return True if self._work.phase == "train" else self._plan.train

    def _verdict(self, observation: Observation, seen: Observed) -> Verdict:
        """The same judgement as that of an item of a sweep."""
        target, outcome = observation.target, seen.report.outcome
        item = Item(target.spec, target, observation.options)
        reason = "timed_out" if outcome.status == "timed_out" else "ended"
        verdict = judge_run(item, seen.report, seen.log, RunEnd(reason, outcome.exit_status, outcome.seconds))
        if verdict.unsure:
            verdict = after_eager(verdict, works=self._works_in_eager(observation))
        return verdict

    def _works_in_eager(self, observation: Observation) -> bool:
        request = self._request(observation.target, observation.options.dtype, EAGER)
        try:
            with self._pool.worker(request, self._pool.empty_caches()) as worker:
                worker.ask("load")
                worker.ask("warm", seconds=0.0, most=1)
        except WorkerFailed:
            return False
        return True

    def _of(self, combination: Combination, configuration: Configuration) -> WorkerRequest:
        target = self._target.with_attention(combination.attention)
        return self._request(target, combination.dtype, configuration, static=combination.cache == STATIC)

    def _request(
        self, target: TargetSpec, dtype: str | None, configuration: Configuration, *, static: bool = False
    ) -> WorkerRequest:
        request = worker_request(self._plan, self._work, configuration)
        return replace(request, source=rebuilt_source(target), dtype=dtype, train=self._train, static_cache=static)


def caches_of(phase: str) -> tuple[str, ...]:
    """The caches that a phase is tried with; one that keeps none has one nameless."""
    return ("dynamic", STATIC) if phase in LANGUAGE_PHASES else ("",)
