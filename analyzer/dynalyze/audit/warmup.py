"""The warm-up check: calls a target with the shapes that production sends, and says what compiles after warm-up.

One process makes every call in the order of the warm-up, then all of them again in another order, as requests come:
what compiles then was not warmed up. A second process with the caches of the first shows what a restart costs, a third
what dynamic=True would change.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from dynalyze.bench.measure import rebuilt_source
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.shapes import costly_buckets
from dynalyze.capture.bench.protocol import Configuration, Work
from dynalyze.capture.events import (
    CompilerEvent,
    CompileStarted,
    Event,
    TorchLoaded,
    WarmupCall,
    WarmupCalled,
    WarmupEnded,
)
from dynalyze.capture.shapes import Dim
from dynalyze.capture.wire import LOOK, SERVING, WARM_UP
from dynalyze.events.log import RunLog
from dynalyze.facts.breaks import graph_breaks
from dynalyze.facts.build import Ended, EndReason
from dynalyze.facts.compilations import NOTHING_TRACED, compilations
from dynalyze.facts.recompiles import recompiles
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places, original_name
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.observe import run_child
from dynalyze.launch.run import NOTHING_REMEMBERED, cache_variables
from dynalyze.launch.spec import TargetSpec
from dynalyze.launch.streams import Streams
from dynalyze.report import Compilation, CompilationKey, GraphBreak, Recompile
from dynalyze.report.audit import DynamicTrial, SecondStart, ShapeRun, Stopping, Warmup, WarmupFunction, WarmupRecompile
from dynalyze.text.amounts import count_of

_STOPPED: dict[EndReason, Stopping] = {"timed_out": "out_of_time", "interrupted": "interrupted"}
_FEW_VERSIONS = 2  # One for the first sizes and one for all others: what automatic dynamic shapes come to.
_LEAST_SECONDS = 5.0  # With less time than this no further process is started.


@dataclass
class ShapeCall:
    """One call as the process wrote it; `ended` is None if it did not end."""

    stage: str
    shape: int
    keys: list[CompilationKey] = field(default_factory=list)
    ended: WarmupCalled | None = None


@dataclass
class WarmupProcess:
    """A finished process of the check: its calls in order, with the name of the pass and the number of the shape of
    each, and what it compiled. `last` is what it wrote at its end, `ending` how the parent saw it end.
    """

    calls: list[tuple[ShapeCall, ShapeRun]]
    functions: list[WarmupFunction]
    compiled: list[Compilation]
    last: WarmupEnded | None
    ending: Ended

    def of(self, stage: str) -> list[ShapeRun]:
        """The calls of one pass that ended."""
        return [run for call, run in self.calls if call.stage == stage and call.ended is not None]

    @property
    def most_versions(self) -> int:
        return max((each.versions for each in self.functions), default=0)

    @property
    def stopped(self) -> Stopping:
        """Whether Ctrl-C or the limit ended it."""
        return _STOPPED.get(self.ending.reason, "") if self.last is None else ""

    @property
    def problem(self) -> str:
        """Why it did not make all of its calls; "" if it did."""
        if self.last is not None:
            return self.last.error
        how = {"timed_out": "the time was up", "interrupted": "interrupted"}.get(
            self.ending.reason, f"its process ended with status {self.ending.exit_status}"
        )
        return f"{how} after {count_of(sum(call.ended is not None for call, _ in self.calls), 'call')}"


def check_warmup(target: TargetSpec, plan: Plan, shapes: Sequence[Work], dims: Sequence[Dim] = ()) -> Warmup:
    """Call the target with each of `shapes`, compiled once with the first configuration of the plan.

    `plan` gives the source, the place, the limits and the seed of the order. Raises UsageError, for example for a size
    that nothing takes.
    """
    source = plan.source or (rebuilt_source(target) if target.rebuilt else {})
    if not source:
        return Warmup(reason="the calls of the program are not known")
    plan = replace(plan, source=source, dims=tuple(dims))
    with TemporaryFolder() as folder:
        return _Check(plan, tuple(shapes), folder, Path(target.path or target.stem).name).run()


class _Check:
    """The processes of one check, one after the other. `label` names the target before each line of its output."""

    def __init__(self, plan: Plan, works: tuple[Work, ...], folder: Path, label: str) -> None:
        self._plan = plan
        self._works = works
        self._configuration = plan.configurations[0] if plan.configurations else plan.default
        self._folder = folder
        self._label = label
        self._until = time.monotonic() + (plan.timeout if plan.total is None else plan.total)
        # The shapes in their order, in another one that is the same for the same seed, and once more to look at what
        # runs.
        numbers = list(range(len(works)))
        other = numbers.copy()
        random.Random(plan.seed).shuffle(other)
        other = other if other != numbers else numbers[::-1]
        self._passes = [(WARM_UP, numbers), (SERVING, other), (LOOK, numbers)]

    def run(self) -> Warmup:
        first = self._child(self._configuration, "first", self._passes)
        found = _result(first, self._configuration)
        if found.reason:
            return found
        _add_buckets(found)
        backend, versions = self._configuration.backend, first.most_versions
        if backend != "inductor":
            found.notes.append(f"No second start was tried: the backend {backend} keeps nothing on disk.")
        elif self._in_time(found, "A second start"):
            self._start_again(found, cold=sum(run.milliseconds for run in found.calls) / 1000)
        many = versions > _FEW_VERSIONS and self._configuration.dynamic != "on"
        if not found.stopped and many and self._in_time(found, "dynamic=True"):
            self._try_dynamic(found, versions)
        return found

    def _child(self, configuration: Configuration, caches: str, passes: list[tuple[str, list[int]]]) -> WarmupProcess:
        """Run one process to its end or limit: all works in the order of each pass."""
        cache_folder = self._folder / caches
        cache_folder.mkdir(mode=0o700, exist_ok=True)
        # One model for all shapes: none of their sizes goes into it.
        sizeless = replace(self._works[0], batch=None, sequence=None, shape=())
        request = {
            "request": asdict(worker_request(self._plan, sizeless, configuration)),
            "works": [asdict(work) for work in self._works],
            "passes": passes,
        }
        # Caches of its own: whatever an earlier program left does not count.
        environment = {**os.environ, **NOTHING_REMEMBERED, **cache_variables(cache_folder)}
        with TemporaryFolder() as folder:
            log, ended = run_child(
                "warmup", request, folder, environment, python=self._plan.python,
                streams=Streams(self._label, quiet=self._plan.quiet),
                timeout=max(min(self._plan.timeout, self._until - time.monotonic()), 1.0),
            )  # fmt: skip
            return _read(log, [work.sizes for work in self._works], ended)

    def _in_time(self, found: Warmup, what: str) -> bool:
        in_time = self._until - time.monotonic() >= _LEAST_SECONDS
        if not in_time:
            found.notes.append(f"{what}: not tried, the time was up.")
        return in_time

    def _start_again(self, found: Warmup, cold: float) -> None:
        second = self._child(self._configuration, "first", self._passes[:1])
        found.stopped = second.stopped
        if second.problem:
            found.notes.append(f"The second start failed: {second.problem}")
            return
        counts = second.last.cache if second.last is not None else {}
        hits, misses, bypasses = (
            sum(count for name, count in counts.items() if name.endswith(end)) for end in ("_hit", "_miss", "_bypass")
        )
        bypassed = [each for compilation in second.compiled for each in compilation.cache_bypasses]
        found.second_start = SecondStart(
            cold_seconds=round(cold, 3),
            warm_seconds=round(sum(run.milliseconds for run in second.of(WARM_UP)) / 1000, 3),
            hits=hits,
            misses=misses,
            bypasses=bypasses,
            warm=bool(hits) and not misses and not bypasses,
            reasons=list(dict.fromkeys(each.reason for each in bypassed)),
            said=next((" ".join(each.said.split()) for each in bypassed if each.said), ""),
        )

    def _try_dynamic(self, found: Warmup, before: int) -> None:
        # A name of its own: what the program itself wrote would be compiled as it was written.
        child = self._child(replace(self._configuration, name="dynamic=on", dynamic="on"), "dynamic", self._passes)
        found.stopped = child.stopped
        if child.stopped:
            found.notes.append(f"dynamic=True was tried: {child.problem}")
            return
        calls = child.of(WARM_UP)
        trial = DynamicTrial(
            versions=child.most_versions,
            after_warmup=sum(_compiled_anything(run) for run in child.of(SERVING)),
            in_eager=sum(bool(run.in_eager) for run in calls),
            error=child.problem or next((run.error for run in calls if run.error), ""),
        )
        found.dynamic_trial, found.dynamic_advice = trial, _advice(trial, before)


def _result(child: WarmupProcess, configuration: Configuration) -> Warmup:
    calls, serving = child.of(WARM_UP), child.of(SERVING)
    found = Warmup(
        calls=calls,
        warm_after=_warm_after([*calls, *serving]),
        after_warmup=[run for run in serving if _compiled_anything(run)],
        functions=child.functions,
        dynamic=configuration.dynamic,
        reason=child.problem,
        stopped=child.stopped,
    )
    if child.last is not None:
        found.recompile_limit, found.notes = child.last.recompile_limit, list(child.last.notes)
    if not found.reason and all(run.error for run in calls):
        found.reason = f"no call finished: {calls[0].error}" if calls else "there was no call"
    if not found.reason and not child.functions:
        found.reason = "nothing was compiled: every call ran in eager"
    return found


def _advice(trial: DynamicTrial, before: int) -> str:
    if trial.error:
        return f"dynamic=True was tried, and did not work: {trial.error}"
    if trial.versions >= before:
        return f"dynamic=True was tried, and does not help: there are {trial.versions} graphs with it, {before} without"
    graphs = count_of(trial.versions, "graph")
    late = f"{trial.after_warmup} shapes still compiled after" if trial.after_warmup else "nothing compiled after"
    return f"dynamic=True was tried: {graphs} instead of {before}, and {late} the warm-up"


def _add_buckets(found: Warmup) -> None:
    """Add sizes to pad to, if sizes cost more versions than automatic dynamic shapes have."""
    most = max((each.versions for each in found.functions), default=0)
    if most <= _FEW_VERSIONS or any(run.error for run in found.calls):
        return
    shapes = [run.shape for run in found.calls]
    chosen = costly_buckets(shapes, [run.versions for run in found.calls], found.recompile_limit)
    if chosen is not None and chosen.merges(shapes):
        found.buckets, found.bucket_padding = chosen.records(shapes), round(chosen.padding, 4)


def _read(run: RunLog, shapes: Sequence[Mapping[str, int]], ending: Ended) -> WarmupProcess:
    """The calls of a run, made by its first process; `shapes` are those of its request."""
    folder = next((event.folder for _, event in run.all() if isinstance(event, TorchLoaded)), "")
    places, sources = Places(folder), Sources(run)
    compiled = compilations(run, places, sources)
    breaks = graph_breaks(run, places, sources, registry(folder))
    again = [each for each in recompiles(run, compiled, breaks) if each.process == 0]
    own = [each for each in compiled if each.process == 0]
    own_breaks = [each for each in breaks if each.process == 0]
    events = run.processes[0].events if run.processes else []
    calls = _calls(events)
    runs = [(call, _shape_run(call, shapes[call.shape], own, own_breaks, again)) for call in calls]
    _add_later(runs, run, compiled)
    last = next((event for event in events if isinstance(event, WarmupEnded)), None)
    keys = {key for call in calls if call.stage in (WARM_UP, SERVING) for key in call.keys}
    functions = _functions([each for each in own if each.key in keys], [each for each in again if each.key in keys])
    return WarmupProcess(runs, functions, compiled, last, ending)


def _compiled_anything(run: ShapeRun) -> bool:
    """Whether torch compiled in this call, tried to, or gave up."""
    return bool(run.compiles or run.eager_frames or run.recompiles)


def _warm_after(runs: Sequence[ShapeRun]) -> int | None:
    """The number of calls before the first after which nothing compiled; None if the last one compiled."""
    last = max((number for number, run in enumerate(runs, 1) if _compiled_anything(run)), default=0)
    return None if runs and last == len(runs) else last


def _calls(events: Iterable[Event]) -> list[ShapeCall]:
    """The calls in their order; what compiles between two of them belongs to neither."""
    calls: list[ShapeCall] = []
    current: ShapeCall | None = None
    seen: set[CompilationKey] = set()
    for event in events:
        if isinstance(event, WarmupCall):
            current = ShapeCall(event.stage, event.shape)
            calls.append(current)
        elif isinstance(event, WarmupCalled) and current is not None:
            current.ended, current = event, None
        elif isinstance(event, CompilerEvent) and current is not None and (key := (0, *event.key)) not in seen:
            seen.add(key)
            current.keys.append(key)
    return calls


def _shape_run(
    call: ShapeCall,
    shape: Mapping[str, int],
    compiled: Sequence[Compilation],
    breaks: Sequence[GraphBreak],
    again: Sequence[Recompile],
) -> ShapeRun:
    keys = set(call.keys)
    again = [each for each in again if each.key in keys]
    refused = {each.key for each in again if each.cause == "limit"}
    tried = [each for each in compiled if each.key in keys - refused]
    ended = call.ended or WarmupCalled(error="the process did not come to the end of this call")
    return ShapeRun(
        shape=dict(shape),
        milliseconds=round(ended.milliseconds, 3),
        compiles=sum(each.status in ("compiled", "broken") for each in tried),
        recompiles=[
            WarmupRecompile(
                each.cause, each.location.function, each.location.file, each.location.line, each.source, each.expected,
                each.actual, each.guard,
            )
            for each in again
        ],
        breaks=sum(any((0, each.epoch, compile_id) in keys for compile_id in each.compile_ids) for each in breaks),
        eager_frames=sum(each.status in ("eager", "failed") and each.reason != NOTHING_TRACED for each in tried),
        error=ended.error,
    )  # fmt: skip


def _add_later(runs: Sequence[tuple[ShapeCall, ShapeRun]], log: RunLog, compiled: Iterable[Compilation]) -> None:
    """Add to each call of the warm-up what later calls with its shape showed."""
    functions = {each.key: each.location.function for each in compiled}
    names: dict[tuple[str, int, str], str] = {}
    for process, event in log.all():
        if isinstance(event, CompileStarted) and (code := event.code) is not None:
            names[code.file, code.line, code.name] = functions.get((process, event.epoch, event.id), "")
    first = {call.shape: run for call, run in runs if call.stage == WARM_UP}
    for call, run in runs:
        mine = first.get(call.shape)
        if mine is None or call.ended is None or call.ended.error:
            continue
        if call.stage == SERVING and not _compiled_anything(run):
            mine.later_milliseconds = run.milliseconds
        elif call.stage == LOOK:
            mine.versions = sorted({number for number, _ in call.ended.versions})
            eager = call.ended.in_eager
            mine.in_eager = list(
                dict.fromkeys(
                    names.get((each.file, each.line, each.name)) or original_name(each.name) for each in eager
                )
            )


def _functions(compiled: Iterable[Compilation], again: Iterable[Recompile]) -> list[WarmupFunction]:
    """The compiled functions with their number of versions, most first; parts after a graph break count apart."""
    counts: Counter[tuple[str, int, str, str]] = Counter()
    for each in compiled:
        if each.status in ("compiled", "broken"):
            frame = f"{each.epoch} {each.compile_id.rpartition('/')[0]}"
            counts[each.location.file, each.location.line, each.function, frame] += 1
    limits = {(each.location.file, each.location.line) for each in again if each.cause == "limit"}
    most: dict[tuple[str, int, str], int] = {}
    for (file, line, name, _), count in counts.items():
        most[file, line, name] = max(count, most.get((file, line, name), 0))
    functions = [
        WarmupFunction(name, file, line, count, (file, line) in limits) for (file, line, name), count in most.items()
    ]
    return sorted(functions, key=lambda each: -each.versions)
