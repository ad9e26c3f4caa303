"""Benchmarks a target: as a report of its own, or as part of the report of a run."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import dynalyze
from dynalyze.bench.configurations import program_config
from dynalyze.bench.extras import extras
from dynalyze.bench.plan import Plan, asks_for_written, with_written
from dynalyze.bench.records import TOO_LARGE, ConfigRun, measurement, rows_in_turns
from dynalyze.bench.run import Benchmarks, pool_for, run_bench
from dynalyze.bench.workers import WorkerPool
from dynalyze.capture.bench.protocol import AS_WRITTEN, RERUN_HINT, TURNS_SHARE, Configuration
from dynalyze.capture.events import BundleWritten, CompileCall, TimedInTurns
from dynalyze.capture.settings import CompileOptions, ModelBuild, settings_of
from dynalyze.files.paths import working_folder
from dynalyze.launch.observe import Observation, Observed, observed
from dynalyze.launch.spec import TargetSpec
from dynalyze.report import Capture, Outcome, Report, printable
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say

_PROGRAM_SHARE = 0.75  # Of the life of a process: how long the program may run that is run again in it.
_LEAST_SECONDS = 30.0  # With less time than this no benchmark is begun: its processes would hardly have started.
_Event = TypeVar("_Event", BundleWritten, TimedInTurns)


@dataclass(frozen=True)
class WorkerSource:
    """What the workers load (`WorkerRequest.source`); None, with the reason, if there is nothing.

    `written` is how the program itself compiles; `cannot_write` says why no other process can do that.
    """

    fields: dict[str, Any] | None
    reason: str = ""
    notes: tuple[str, ...] = ()
    written: Configuration | None = None
    cannot_write: str = ""


def measure(
    target: TargetSpec, plan: Plan, command: tuple[str, ...], run: Callable[[Plan], Benchmarks] = run_bench
) -> Report:
    """Benchmark a target, or the calls of one run of a program; `run` does it. Raises UsageError."""
    began = time.monotonic()
    plan = replace(plan, label=_label(target))
    if target.rebuilt:
        if plan.rerun:
            raise UsageError(f"--rerun is for programs; {target.spec} is made anew in every process as it is")
        if asks_for_written(plan):
            raise UsageError(
                f'--configs "{AS_WRITTEN}" is for a program that compiles by itself; {target.spec} is compiled by '
                "dynalyze"
            )
        report = _new_report(target)
        _add(report, run(replace(plan, source=rebuilt_source(target))))
    else:
        report = _of_program(target, plan, run)
    report.command = [printable(argument) for argument in command]
    report.outcome.seconds = round(time.monotonic() - began, 3)
    return report


def add_bench(
    seen: Observed, target: TargetSpec, plan: Plan, before: Callable[[str], None] | None = None,
    pool: WorkerPool | None = None,
) -> Plan | None:  # fmt: skip
    """Benchmark what was just observed, and add it to the report; a note says why not.

    `before` is called, with a line about it, once it is certain that something will be measured. `pool` was
    `started_beside` the program. Returns the plan that was run, for more such work while the folder of the run exists;
    None if none was.
    """
    report = seen.report
    ready, source = planned(seen, target, plan)
    in_turns = _event(seen, TimedInTurns)
    if in_turns is not None and ready is not None:
        ready = ready if in_turns.problem else replace(ready, in_turns=in_turns, total=_left(ready, in_turns))
    elif in_turns is not None and not in_turns.problem:
        ended = report.outcome.status in ("complete", "incomplete")  # Then there are no calls because of their size.
        too_large = "the model is too large for a copy that could be compared with it"
        report.answers_unchecked = too_large if ended else source.reason
        report.capture.notes += new_notes(list(in_turns.load.get("notes") or ()), report)
        why = TOO_LARGE if ended else source.reason
        eager, row = rows_in_turns(in_turns, source.written or plan.first, why)
        report.measurements = [measurement(each, eager) for each in (eager, row)]
        return None
    elif in_turns is not None:
        source = replace(source, reason=in_turns.problem)
    if ready is None:
        report.capture.notes.append(f"No speed was measured: {source.reason}.")
        report.answers_unchecked = source.reason.partition("; `")[0] if plan.accuracy else ""
        return None
    announce_repeats(ready, report)
    report.answers_unchecked = "the benchmark that compares them has not ended"
    note = f"its speed is being measured, for at most {ready.total:g} s"
    found = run_bench(ready, first=None if before is None else partial(before, note), pool=pool)
    report.measurements, report.accuracy = found.measurements, found.accuracy
    report.answers_unchecked, report.operators = found.unchecked, found.operators
    _settle(report)
    report.capture.notes += [*source.notes, *new_notes(found.notes, report)]
    if found.status == "interrupted":
        report.outcome.status, report.outcome.message = "interrupted", "Interrupted while its speed was measured."
    return ready


@contextmanager
def started_beside(target: TargetSpec, plan: Plan) -> Iterator[WorkerPool]:
    """A pool for `add_bench` that gets ready while the program runs."""
    with pool_for(replace(plan, label=_label(target))) as pool:
        needs = [target.library] * (target.asked is not None)
        needs += ["inductor"] * any(
            each.compile and each.backend == "inductor" for each in plan.configurations_on("cpu")
        )
        pool.prepare_beside(*needs)
        yield pool


def _label(target: TargetSpec) -> str:
    return Path(target.path or target.stem).name


def planned(seen: Observed, target: TargetSpec, plan: Plan) -> tuple[Plan | None, WorkerSource]:
    """The plan for what was just observed, and its source; no plan if the source says why nothing can be measured.

    If the plan has no `total`, it shares its `timeout` with the run.
    """
    report = seen.report
    left = plan.timeout - report.outcome.seconds if plan.total is None else plan.total
    status, reason = report.outcome.status, ""
    if status == "nothing_compiled":
        reason = "nothing was compiled"
    elif status not in ("complete", "incomplete"):
        reason = {"failed": "the run failed", "timed_out": "the time was up"}.get(status, "the run was interrupted")
    elif plan.total is None and left < _LEAST_SECONDS:
        reason = f"of the time limit {max(0, left):.0f} s were left, and it needs {_LEAST_SECONDS:.0f}"
    source = _source(target, seen) if not reason else WorkerSource(None, reason)
    if source.fields is None:
        return None, source
    plan = replace(
        _as_called(plan, seen), source=source.fields, label=_label(target), total=left,
        cold_seconds=None if _spared(report) else sum(each.seconds.get("total", 0.0) for each in report.compilations),
        recorded_first=plan.recorded and bool(report.graph_breaks),  # One process, and the answer to what to do first.
    )  # fmt: skip
    if source.written is not None and not source.cannot_write:  # What the user wrote is what they want to know about.
        plan = replace(plan, configurations=(source.written,))
    return plan, source


def _left(plan: Plan, in_turns: TimedInTurns) -> float | None:
    """Seconds of a budget for what is measured after turns that took longer than their share."""
    timed = (each for turn in in_turns.turns for arm in turn for each in arm)
    passes = [*in_turns.eager_calls_ms, *in_turns.calls_ms, *timed]
    return plan.total and round(plan.total - max(0.0, sum(passes) / 1e3 - TURNS_SHARE * plan.total), 1)


def _spared(report: Report) -> bool:
    """Whether caches held what an earlier run had compiled. What they hold of this one costs a first start no less."""
    keys = report.caches.keys if report.caches is not None else []
    if not keys:
        return any("hit" in name for each in report.compilations for name in each.cache)
    missed = {(each.cache, each.key) for each in keys if each.state == "miss"}
    return any(each.state == "hit" and (each.cache, each.key) not in missed for each in keys)


def announce_repeats(plan: Plan, report: Report, made: str = "") -> None:
    """Print how often calls with outside effects will be repeated; `made` says so for other commands
    than benchmarks.
    """
    effects = report.capture.outside_effects
    if not (plan.allow_effects and effects) or plan.sandboxed:
        return
    rows = len(plan.configurations_on(plan.device or "cpu")) + 1
    processes = 2 * rows + plan.pairs * (1 + rows)
    each = f"in about {processes} processes, in each at least 5 times and for up to {plan.seconds / plan.pairs:.2g} s"
    say(f"--allow-effects: the program's calls are made again {made or each}, with what they do: {effects[0]}")


def _as_called(plan: Plan, seen: Observed) -> Plan:
    """The plan with training steps instead of forward passes, if the program went backward."""
    event = _event(seen, BundleWritten)
    if not plan.as_called or event is None or not event.backwards:
        return plan
    return replace(
        plan, works=tuple(replace(work, phase="train") if work.phase == "forward" else work for work in plan.works)
    )


def _of_program(target: TargetSpec, plan: Plan, run: Callable[[Plan], Benchmarks]) -> Report:
    options = CompileOptions(train=plan.train)
    recording = Observation(
        target, options, timeout=plan.timeout, python=plan.python, quiet=plan.quiet, bundle=True, in_place=False,
        written=not plan.rerun, allow_effects=plan.allow_effects or plan.sandboxed,
    )  # fmt: skip
    with observed(recording) as seen:
        report = _new_report(target, seen.report.environment)
        if seen.report.outcome.status in ("failed", "timed_out", "interrupted"):
            report.outcome = seen.report.outcome
            report.capture.notes.append("No speed was measured: the program did not finish.")
            return report
        source = _program_source(target, seen, plan.timeout) if plan.rerun else _source(target, seen)
        plan = _as_called(plan, seen)
        if source.fields is not None or source.written is not None:
            plan = with_written(plan, source.written, target.spec)
        if source.fields is None:
            each_row = product(plan.works, (plan.eager, *plan.configurations_on(plan.device or "cpu")))
            rows = [ConfigRun(configuration, work) for work, configuration in each_row]
            for row in rows:
                row.fail("not_replayable", f"its calls cannot be made again: {source.reason}")
            report.measurements = [measurement(row, row) for row in rows]
            return report
        report.capture.notes += source.notes
        announce_repeats(plan, seen.report)
        _add(report, run(replace(plan, source=source.fields)))
        return report


def _add(report: Report, found: Benchmarks) -> None:
    report.measurements, report.accuracy = found.measurements, found.accuracy
    _settle(report)
    report.environment = {**report.environment, **found.environment}
    report.outcome.status, report.outcome.message = found.status, found.message
    report.capture.notes += found.notes


def _settle(report: Report) -> None:
    for each in extras():
        each.settle(report)


def _source(target: TargetSpec, seen: Observed) -> WorkerSource:
    if target.rebuilt:
        return WorkerSource(rebuilt_source(target))
    written = _event(seen, BundleWritten)
    if written is None:
        return WorkerSource(None, f"the program left before its calls could be written; {RERUN_HINT}")
    if written.error:
        hint = f"; {RERUN_HINT}" if written.calls else ""
        return WorkerSource(None, written.error + hint, written=program_config(written))
    fields = {
        "kind": "bundle",
        "file": str(seen.folder / Path(written.file).name),
        "digest": written.digest,
        "sys_path": written.sys_path,
        "arguments": written.arguments,
        "folder": written.folder,
    }
    notes = tuple(dict.fromkeys([*written.cut, *written.notes]))
    return WorkerSource(fields, notes=notes, written=program_config(written), cannot_write=written.cannot_write)


def _program_source(target: TargetSpec, seen: Observed, timeout: float) -> WorkerSource:
    """The source for running the program again, with the calls of the first run."""
    event = _event(seen, BundleWritten)
    if event is not None and not event.calls:
        return WorkerSource(None, event.error)
    fields = {
        "kind": "program",
        "mode": target.mode,
        "path": target.path,
        "module": target.module,
        "arguments": list(target.arguments),
        "chosen": list(target.chosen),
        "seconds": timeout * _PROGRAM_SHARE,
        "made": None if event is None else event.made,
    }
    if event is None:  # It left by os._exit: what it gave to torch.compile is known, the arguments are not.
        compiles = any(isinstance(each, CompileCall) and not each.left_out for _, each in seen.log.all())
        event = BundleWritten(written=compiles)
    notes = tuple(dict.fromkeys(["The program was run again in each process (--rerun).", *event.cut, *event.notes]))
    return WorkerSource(fields, notes=notes, written=program_config(event))


def _event(seen: Observed, kind: type[_Event]) -> _Event | None:
    return next((event for _, event in seen.log.all() if isinstance(event, kind)), None)


def rebuilt_source(target: TargetSpec) -> dict[str, Any]:
    """The source for building FILE:NAME, MODULE:NAME or a model of a library in a worker."""
    if target.asked is not None:
        return {
            "kind": "library",
            "library": target.library,
            "name": target.name,
            **settings_of(target.asked, ModelBuild),
        }
    return {
        "kind": "object",
        "path": target.path,
        "module": target.module,
        "name": target.name,
        "inputs": list(target.inputs),
        "arguments": list(target.arguments),
        "attention": target.attention,
    }


def new_notes(notes: list[str], report: Report) -> list[str]:
    """The notes of a benchmark, without the one on a model that the report already has."""
    model = report.target.model
    return [note for note in notes if model is None or not note.startswith(f"{model.class_name} (")]


def _new_report(target: TargetSpec, environment: dict[str, Any] | None = None) -> Report:
    return Report(
        dynalyze=dynalyze.__version__,
        created=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        command=[],
        environment=environment or {},
        target=target.described(),
        outcome=Outcome("complete"),
        capture=Capture(mode="none"),
        folder=printable(working_folder()),
    )
