"""`--attention-matrix`: every attention implementation with every dtype and cache, each in processes of its own.

A combination that crashes or hangs costs only its own cell. What is impossible on this device, or with what is
installed, is a cell `not_here` with transformers' own reason, and never a failure.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from dynalyze.bench import SHORT_PAIRS, schedule
from dynalyze.bench.configurations import EAGER
from dynalyze.bench.measure import rebuilt_source
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.run import run_bench
from dynalyze.bench.schedule import Arm
from dynalyze.bench.workers import Stopped, WorkerFailed, WorkerPool
from dynalyze.capture.bench.commands import CompareAnswers, DescribeAttention, Load, Warm
from dynalyze.capture.bench.protocol import Configuration, WorkerRequest
from dynalyze.capture.settings import LANGUAGE_PHASES, CompileArguments, CompileOptions, settings_of
from dynalyze.facts.audit import RAN, is_own
from dynalyze.launch.observe import Observation, Observed, observed
from dynalyze.launch.sandbox import Isolation
from dynalyze.launch.spec import TargetSpec
from dynalyze.launch.streams import Streams
from dynalyze.report import Report
from dynalyze.report.audit import AttentionCell, AttentionMatrix, CellStatus
from dynalyze.report.measurements import Measurement
from dynalyze.sweep.records import Item
from dynalyze.sweep.rows import ItemVerdict, after_eager, judge_run
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say

DTYPES = ("float32", "bfloat16", "float16")
STATIC = "static"
_MOST_OF_THE_TIME = 0.25  # The share of the whole that one process may take.
_MOST_SECONDS = 3.0  # Timed seconds of a combination: there are many of them.
_LONGEST = 300
_STOPPED = {"interrupted": "Interrupted", "out_of_time": "The time was up"}
# Their reasons are words of an exception, which may quote the program.
_RAISED = ("eager_error", "create_error", "compile_error")
_STATUSES: dict[str, CellStatus] = {
    "eager_error": "eager_error", "create_error": "eager_error", "compile_error": "compile_error",
    "timeout": "timeout", "crash": "crash", "graph_break": "breaks",
}  # fmt: skip
# What libraries say where the device, not the combination, is the reason.
_OF_DEVICE = re.compile(
    r"not implemented for '"
    r"|Could not run '[^']+' with arguments from the '\w+' backend"
    r"|only supports? \S+ GPUs? or newer"
    r"|no kernel image is available"
    r"|does not support \w+ on CPU"
    r"|No CUDA GPUs are available|Torch not compiled with CUDA enabled"
)


def check_target(target: TargetSpec, phase: str = "forward") -> None:
    """Refuse a program, or a phase of a language model for an object, before anything runs."""
    if not target.rebuilt:
        raise UsageError(
            f"--attention-matrix builds the model anew for each cell, which {target.spec} cannot give: name an "
            "architecture of transformers (hf:NAME), or a FILE:NAME that makes the model"
        )
    if target.asked is None and phase in LANGUAGE_PHASES:
        raise UsageError(f"--attention-matrix in phase {phase} is for hf:NAME; a FILE:NAME is called as it is")


def check_model(target: TargetSpec, plan: Plan) -> None:
    """Refuse what turns out to be no model of transformers once loaded, in a process of its own.

    A target that fails by itself is reported later. Raises KeyboardInterrupt after Ctrl-C.
    """
    if target.asked is not None:
        return
    streams = Streams(Path(target.path or target.stem).name, quiet=True)
    with WorkerPool(streams, plan.timeout, python=plan.python, sandboxed=plan.sandboxed) as pool:
        try:
            Trials(target, plan, pool).describe(AttentionMatrix(), (), DTYPES)
        except WorkerFailed:
            return
        except Stopped as stop:
            raise KeyboardInterrupt from stop


def attention_matrix(
    target: TargetSpec, plan: Plan, attentions: tuple[str, ...] = (), dtypes: tuple[str, ...] = DTYPES
) -> AttentionMatrix:
    """Try every combination with the first configuration and workload of the plan; it is timed only with `seconds`.

    Without `attentions` all that the model's class supports are tried. Ctrl-C, and the end of `plan.total`, leave the
    finished cells. Raises UsageError if the target is no model of transformers, or a name is unknown.
    """
    phase = plan.works[0].phase
    check_target(target, phase)
    if plan.total is not None:  # What hangs must not cost all others.
        plan = replace(plan, timeout=min(plan.timeout, plan.total * _MOST_OF_THE_TIME))
    caches = ("dynamic", STATIC) if phase in LANGUAGE_PHASES else ("",)  # A phase that keeps none has one nameless.
    matrix = AttentionMatrix(caches=[each for each in caches if each], phase=phase)
    matrix.own_cache = "" if caches == ("",) else (STATIC if plan.static_cache else "dynamic")
    matrix.backend = (plan.configurations or (plan.default,))[0].backend
    streams = Streams(Path(target.path or target.stem).name, quiet=plan.quiet, once=True)
    with WorkerPool(streams, plan.timeout, plan.total, python=plan.python, sandboxed=plan.sandboxed) as pool:
        trials = Trials(target, plan, pool)
        try:
            refused = trials.describe(matrix, attentions, dtypes)
        except WorkerFailed as error:
            matrix.notes.append(f"Nothing could be tried: {error.message}")
        except Stopped as stop:
            matrix.stopped = stop.reason
        else:
            fill(matrix, refused, caches, trials, say)
    return matrix


def fill(
    matrix: AttentionMatrix,
    refused: Mapping[str, str],
    caches: Sequence[str],
    trials: Trials,
    show: Callable[[str], None],
) -> None:
    """Try the combinations one after another, then time those that ran: a time limit costs speeds before cells.

    `refused` says for some attentions why they are impossible here.
    """
    combinations = list(product(matrix.attentions, caches, matrix.dtypes))
    try:
        for number, (attention, cache, dtype) in enumerate(combinations, 1):
            cell = AttentionCell(attention, dtype, cache, id=f"cell{number}")
            if attention in refused:
                cell.status, cell.reason = "not_here", _one_line(refused[attention])
                matrix.cells.append(cell)
                continue
            show(f"attention matrix, cell {number} of {len(combinations)}: {combination_name(cell)}")
            _add_run(cell, trials)
            matrix.cells.append(cell)
            try:
                _add_accuracy(cell, trials)
            except Stopped as stop:
                cell.notes.append(f"{_STOPPED[stop.reason]} before its accuracy was known.")
                raise
        if trials.timed:
            _add_speeds(matrix, trials, show)
    except Stopped as stop:
        matrix.stopped = stop.reason


def combination_name(cell: AttentionCell) -> str:
    """ "sdpa, bfloat16, static cache"."""
    return ", ".join([cell.attention, cell.dtype, *([f"{cell.cache} cache"] if cell.cache else [])])


def _add_run(cell: AttentionCell, trials: Trials) -> None:
    try:
        report, verdict = trials.recorded(cell)
    except UsageError as error:
        cell.status, cell.reason = "not_here", _one_line(str(error))
        return
    cell.graph_breaks, cell.recompiles = len(report.graph_breaks), len(report.recompiles)
    cell.graphs = len(report.graphs)
    cell.backends = list(dict.fromkeys(call.backend for call in report.attention if call.backend))
    cell.status = _STATUSES.get(verdict.status, "recompiles" if report.recompiles else "runs")
    if verdict.status in _RAISED and _OF_DEVICE.search(verdict.error or ""):
        cell.status = "not_here"
    if cell.status == "breaks" and report.graph_breaks:
        broken = report.graph_breaks[0]
        cell.reason, cell.file, cell.line = broken.gb_type, broken.location.file, broken.location.line
        if broken.gb_id:
            cell.facts["gb_id"] = broken.gb_id
    elif cell.status == "recompiles":
        again = report.recompiles[0]
        cell.file, cell.line, cell.facts["cause"] = again.location.file, again.location.line, again.cause
    elif cell.status != "runs":
        # The status says already that it was in eager.
        cell.reason = _one_line((verdict.error or "").removeprefix("eager: "))
        cell.file, cell.line = verdict.file, verdict.line
        if verdict.status in _RAISED:
            cell.facts["raised"] = True


def _add_accuracy(cell: AttentionCell, trials: Trials) -> None:
    """Whether its numbers are right, if it ran."""
    if cell.status not in RAN:
        return
    try:
        accuracy = trials.accuracy(cell)
    except WorkerFailed as error:
        cell.notes.append(f"The accuracy is not known: {_one_line(error.message)}")
        return
    cell.accuracy = accuracy.get("verdict")
    if accuracy.get("reason") and cell.accuracy in ("suspicious", "not comparable"):
        cell.notes.append(f"Accuracy: {_one_line(accuracy['reason'])}")
    outputs = [each for each in accuracy.get("tensors") or [] if each.get("kind") == "output"]
    for fact, key in (("output_dtype", "dtype"), ("compiled_output_dtype", "compiled_dtype")):
        if dtypes := sorted({str(each[key]) for each in outputs if each.get(key)}):
            cell.facts[fact] = ", ".join(dtypes)


def _add_speeds(matrix: AttentionMatrix, trials: Trials, show: Callable[[str], None]) -> None:
    """Time what ran, the target's own combination first. A cell has times only if they are valid."""
    ran = [cell for cell in matrix.cells if cell.status in RAN]
    order = sorted(ran, key=lambda cell: not is_own(cell, matrix))
    for number, cell in enumerate(order, 1):
        show(f"attention matrix, speed {number} of {len(order)}: {combination_name(cell)}")
        try:
            measured = trials.speed(cell)
        except UsageError as error:
            cell.notes.append(f"The speed is not known: {_one_line(str(error))}")
        except Stopped as stop:
            for left in order[number - 1 :]:
                left.notes.append(f"{_STOPPED[stop.reason]} before it was timed.")
            raise
        else:
            if measured is not None and measured.status == "valid":
                cell.speedup = measured.speedup
                cell.latency_ms = measured.latency_ms.p50 if measured.latency_ms else None
                cell.eager_latency_ms = measured.eager_latency_ms.p50 if measured.eager_latency_ms else None
            elif measured is not None:
                cell.notes.append(f"The speed is not known: {_one_line(measured.reason)}")


def _one_line(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


class Trials:
    """What can be done with a combination, in processes of an open pool. All may raise Stopped."""

    def __init__(self, target: TargetSpec, plan: Plan, pool: WorkerPool) -> None:
        self.timed = plan.seconds > 0
        self._target = target
        self._plan = plan
        self._pool = pool
        self._end = None if plan.total is None else time.monotonic() + plan.total
        self._configuration = (plan.configurations or (plan.default,))[0]
        self._work = plan.works[0]
        self._train = True if self._work.phase == "train" else plan.train

    def describe(self, matrix: AttentionMatrix, names: tuple[str, ...], dtypes: tuple[str, ...]) -> dict[str, str]:
        """Have a process of the unchanged target say which attentions it supports; returns those that are refused.

        Raises WorkerFailed if the target itself fails, UsageError if it is no model of transformers, or a name is
        unknown.
        """
        request = self._request(self._target, self._plan.dtype, EAGER)
        request.extra["check"] = [vars(self._configuration)]
        try:
            with self._pool.worker(request, self._pool.empty_caches()) as worker:
                load = worker.ask(Load())
                attention = worker.ask(DescribeAttention(list(names), list(dtypes)))
        except WorkerFailed as error:
            if error.kind == "misuse":
                raise UsageError(error.message) from error
            raise
        available = attention.names
        matrix.attentions, matrix.dtypes = list(available), list(dict.fromkeys(dtypes))
        matrix.model, matrix.device = attention.model, load.device
        matrix.own_attention, matrix.own_dtype = attention.own, load.dtype
        if attention.unsupported and not names:
            why = f"transformers' class {matrix.model} does not support it"
            matrix.notes.append(f"Not tried, for {why}: {', '.join(attention.unsupported)}.")
        for name, each in available.items():
            if each["used"] not in ("", name):
                matrix.notes.append(f"For {name} transformers takes {each['used']} here.")
        return {name: each["refused"] for name, each in available.items() if each["refused"]}

    def recorded(self, cell: AttentionCell) -> tuple[Report, ItemVerdict]:
        """Run it once, recorded. A UsageError is due to this combination: the target itself was tried before."""
        self._pool.attend()
        observation = self._observation(cell)
        with observed(observation) as seen:
            if seen.report.outcome.status == "interrupted":
                raise Stopped("interrupted")
            if seen.report.outcome.status == "timed_out":
                self._left()  # The end of the whole is no fault of this combination.
            return seen.report, self._verdict(observation, seen)

    def accuracy(self, cell: AttentionCell) -> dict[str, Any]:
        """The fields of `measurements.Accuracy`, from the fp64-anchored test; raises WorkerFailed."""
        target = self._target.with_attention(cell.attention)
        request = self._request(target, cell.dtype, self._configuration, static=cell.cache == STATIC)
        return schedule.extra(self._pool, Arm(request, self._pool.empty_caches()), CompareAnswers())

    def speed(self, cell: AttentionCell) -> Measurement | None:
        """Compiled vs eager, from few pairs in a few seconds; None if nothing was measured."""
        plan = replace(
            self._plan, source=rebuilt_source(self._target.with_attention(cell.attention)),
            configurations=(self._configuration,), works=(replace(self._work, shape=()),), written=None,
            adds_written=False, rerun=False, dims=(), dtype=cell.dtype, static_cache=cell.cache == STATIC,
            pairs=SHORT_PAIRS, seconds=min(self._plan.seconds, _MOST_SECONDS), total=self._left(), accuracy=False,
            memory=False,
        )  # fmt: skip
        result = run_bench(plan)
        if result.status == "interrupted":
            raise Stopped("interrupted")
        return next((each for each in result.measurements if each.configuration == self._configuration.name), None)

    def _left(self) -> float | None:
        """Seconds left for the whole; raises Stopped if there are none."""
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            raise Stopped("out_of_time")
        return left

    def _observation(self, cell: AttentionCell) -> Observation:
        plan, target, how = self._plan, self._target.with_attention(cell.attention), self._configuration
        if target.asked is not None:
            asked = replace(
                target.asked, static_cache=cell.cache == STATIC, phase=self._work.phase, batch=self._work.batch,
                sequence=self._work.sequence, new_tokens=plan.new_tokens,
            )  # fmt: skip
            target = replace(target, asked=asked)
        options = CompileOptions(
            **settings_of(how, CompileArguments), train=self._train, device=plan.device, dtype=cell.dtype,
            given=("--attention-matrix",),
        )  # fmt: skip
        timeout = min(plan.timeout, self._left() or plan.timeout)
        # What transformers reads and keeps to build a model is not the program's doing.
        contained: Isolation = "sandbox" if plan.sandboxed else "refuse"
        isolation = "open" if target.asked is not None or plan.allow_effects else contained
        return Observation(target, options, timeout, python=plan.python, quiet=plan.quiet, isolation=isolation)

    def _verdict(self, observation: Observation, seen: Observed) -> ItemVerdict:
        """The same judgement as that of an item of a sweep."""
        target = observation.target
        verdict = judge_run(Item(target.spec, target, observation.options), seen.report, seen.log)
        if not verdict.unsure:
            return verdict
        request = self._request(target, observation.options.dtype, EAGER)
        try:
            with self._pool.worker(request, self._pool.empty_caches()) as worker:
                worker.ask(Load())
                worker.ask(Warm(0.0, 1))
            works = True
        except WorkerFailed:
            works = False
        return after_eager(verdict, works=works)

    def _request(
        self, target: TargetSpec, dtype: str | None, configuration: Configuration, *, static: bool = False
    ) -> WorkerRequest:
        request = worker_request(self._plan, self._work, configuration)
        return replace(request, source=rebuilt_source(target), dtype=dtype, train=self._train, static_cache=static)
