"""The cells of the attention matrix: the processes that try a combination, and the record made of what was seen."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dynalyze.bench import schedule
from dynalyze.bench.configurations import DEFAULT, EAGER
from dynalyze.bench.measure import rebuilt_source
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.run import run_bench
from dynalyze.bench.schedule import Arm
from dynalyze.bench.stats import MIN_PAIRS
from dynalyze.bench.workers import Stopped, WorkerFailed, WorkerPool
from dynalyze.capture.bench.protocol import Configuration, Work, WorkerRequest
from dynalyze.capture.settings import LANGUAGE_PHASES, CompileArguments, CompileOptions, settings_of
from dynalyze.facts.attention_matrix import RAN
from dynalyze.fleet.items import Item
from dynalyze.fleet.rows import RunEnd, Verdict, after_eager, judge_run
from dynalyze.launch.observe import Observation, Observed, observed
from dynalyze.launch.spec import TargetSpec
from dynalyze.report import GraphBreak, Report
from dynalyze.report.audit import AttentionCell, CellStatus
from dynalyze.report.measurements import Measurement
from dynalyze.text.errors import UsageError

_LONGEST = 300
# Their reasons are words of an exception, which may quote the program.
_RAISED = ("eager_error", "create_error", "compile_error")

# What libraries say where the device, not the combination, is the reason.
_OF_DEVICE = re.compile(
    r"not implemented for '"
    r"|Could not run '[^']+' with arguments from the '\w+' backend"
    r"|only supports? \S+ GPUs? or newer"
    r"|no kernel image is available"
    r"|does not support \w+ on CPU"
    r"|No CUDA GPUs are available|Torch not compiled with CUDA enabled"
)
STATIC = "static"
_MOST_SECONDS = 3.0
"""Timed seconds of a combination: there are many of them."""


@dataclass(frozen=True)
class Combination:
    """What is tried in one cell; without a cache where the phase has none."""

    attention: str
    dtype: str
    cache: str = ""

    @property
    def name(self) -> str:
        """For people: "sdpa, bfloat16, static cache"."""
        return ", ".join([self.attention, self.dtype, *([f"{self.cache} cache"] if self.cache else [])])


@dataclass(frozen=True)
class Recorded:
    """A recorded run, and what became of it."""

    report: Report
    verdict: Verdict


class Trials(Protocol):
    """What can be done with a combination, each in processes of its own. All may raise Stopped.

    `timed`: whether speeds are asked for.
    """

    @property
    def timed(self) -> bool: ...

    def recorded(self, combination: Combination) -> Recorded:
        """Run it once, recorded; raises UsageError where it cannot even be begun."""

    def accuracy(self, combination: Combination) -> dict[str, Any]:
        """The fields of `measurements.Accuracy`; raises WorkerFailed."""

    def speed(self, combination: Combination) -> Measurement | None:
        """Compiled against eager; None where it left nothing."""


def recorded_cell(name: str, combination: Combination, trials: Trials) -> AttentionCell:
    """The cell as the recorded run has it: what it became, and where."""
    cell = AttentionCell(combination.attention, combination.dtype, combination.cache, id=name)
    try:
        seen = trials.recorded(combination)
    except UsageError as error:
        return not_here(name, combination, str(error))
    report, verdict = seen.report, seen.verdict
    cell.graph_breaks, cell.recompiles = len(report.graph_breaks), len(report.recompiles)
    cell.graphs = len(report.graphs)
    cell.backends = list(dict.fromkeys(call.backend for call in report.attention if call.backend))
    cell.status = _status(report, verdict)
    if cell.status == "breaks" and report.graph_breaks:
        _tell_break(cell, report.graph_breaks[0])
    elif cell.status == "recompiles":
        first = report.recompiles[0]
        cell.file, cell.line, cell.facts["cause"] = first.location.file, first.location.line, first.cause
    elif cell.status != "runs":
        # The status says already that it was in eager.
        cell.reason = _one_line((verdict.error or "").removeprefix("eager: "))
        cell.file, cell.line = verdict.file, verdict.line
        if verdict.status in _RAISED:
            cell.facts["raised"] = True
    return cell


def add_accuracy(cell: AttentionCell, combination: Combination, trials: Trials) -> None:
    """Whether its numbers are right; of a cell that did not run nothing can be said."""
    if cell.status not in RAN:
        return
    try:
        answer = trials.accuracy(combination)
    except WorkerFailed as error:
        cell.notes.append(f"The accuracy is not known: {_one_line(error.message)}")
        return
    cell.accuracy = answer.get("verdict")
    if answer.get("reason") and cell.accuracy in ("suspicious", "not comparable"):
        cell.notes.append(f"Accuracy: {_one_line(answer['reason'])}")
    for fact, key in (("output_dtype", "dtype"), ("compiled_output_dtype", "compiled_dtype")):
        outputs = [each for each in answer.get("tensors") or [] if each.get("kind") == "output"]
        found = sorted({str(each[key]) for each in outputs if each.get(key)})
        if found:
            cell.facts[fact] = ", ".join(found)


def add_speed(cell: AttentionCell, combination: Combination, trials: Trials) -> None:
    """How fast a combination that ran is. Times stand in the cell only where they are valid."""
    try:
        measured = trials.speed(combination)
    except UsageError as error:
        cell.notes.append(f"The speed is not known: {_one_line(str(error))}")
        return
    if measured is None:
        return
    if measured.status != "valid":
        cell.notes.append(f"The speed is not known: {_one_line(measured.reason)}")
        return
    cell.speedup = measured.speedup
    cell.latency_ms = measured.latency_ms.p50 if measured.latency_ms else None
    cell.eager_latency_ms = measured.eager_latency_ms.p50 if measured.eager_latency_ms else None


def not_here(name: str, combination: Combination, reason: str) -> AttentionCell:
    """A combination that nothing was run for."""
    return AttentionCell(
        combination.attention, combination.dtype, combination.cache, "not_here", reason=_one_line(reason), id=name
    )


def _status(report: Report, verdict: Verdict) -> CellStatus:
    status = verdict.status
    if status in ("eager_error", "create_error", "compile_error") and _OF_DEVICE.search(verdict.error or ""):
        return "not_here"
    if status in ("eager_error", "create_error"):
        return "eager_error"
    if status in ("compile_error", "timeout", "crash"):
        return status
    if status == "graph_break":
        return "breaks"
    return "recompiles" if report.recompiles else "runs"


def _tell_break(cell: AttentionCell, found: GraphBreak) -> None:
    cell.reason, cell.file, cell.line = found.gb_type, found.location.file, found.location.line
    if found.gb_id:
        cell.facts["gb_id"] = found.gb_id


def _one_line(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


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
            **settings_of(how, CompileArguments), train=self._train, device=plan.device, dtype=combination.dtype,
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
