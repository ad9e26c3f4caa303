"""The warm-up check: drives a target over the shapes that production sends, and says what compiles after warm-up.

One process makes every call in the order of the warm-up, then all of them again in another order, as requests come:
whatever compiles there was not warmed up. A second process with the caches of the first shows what a restart costs, a
third what dynamic=True would change.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dynalyze.audit.buckets import bucketed
from dynalyze.audit.warmup_facts import Warmed, compiled_anything, read_warmed, warm_after
from dynalyze.bench.measure import rebuilt_source
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.capture.bench.protocol import Configuration, Work
from dynalyze.capture.shapes import Dim
from dynalyze.capture.wire import LOOK, SERVING, WARM_UP
from dynalyze.facts.build import Ended, EndReason
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.observe import run_child
from dynalyze.launch.run import NOTHING_REMEMBERED, cache_variables
from dynalyze.launch.spec import TargetSpec
from dynalyze.launch.streams import Streams
from dynalyze.report.audit import DynamicTrial, SecondStart, Stopping, Warmup
from dynalyze.text.amounts import count_of

_STOPPED: dict[EndReason, Stopping] = {"timed_out": "out_of_time", "interrupted": "interrupted"}

FEW_VERSIONS = 2
"""One for the first sizes and one for all others: what automatic dynamic shapes come to."""
_LEAST_SECONDS = 5.0
"""With less time than this no further process is started."""
_DYNAMIC = "dynamic=on"


@dataclass(frozen=True)
class Child:
    """A process of the check that has ended."""

    warmed: Warmed
    ending: Ended

    @property
    def stopped(self) -> Stopping:
        """Whether Ctrl-C or the limit ended it."""
        return _STOPPED.get(self.ending.reason, "") if self.warmed.ended is None else ""

    @property
    def problem(self) -> str:
        """Why it did not make all of its calls; "" where it did."""
        if self.warmed.ended is not None:
            return self.warmed.ended.error
        where = f" after {count_of(sum(call.ended is not None for call, _ in self.warmed.calls), 'call')}"
        if self.ending.reason == "timed_out":
            return f"the time was up{where}"
        if self.ending.reason == "interrupted":
            return f"interrupted{where}"
        return f"its process ended with status {self.ending.exit_status}{where}"


def check_warmup(target: TargetSpec, plan: Plan, shapes: Sequence[Work], dims: Sequence[Dim] = ()) -> Warmup:
    """Call the target with each of `shapes`, compiled once as the plan's first configuration says.

    `plan` gives the source, the place, the limits and the seed of the order.

    Raises:
        UsageError: what was asked for cannot be, as a size that nothing takes.
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
        backend, versions = self._configuration.backend, first.warmed.most_versions
        if backend != "inductor":
            found.notes.append(f"No second start was tried: the backend {backend} keeps nothing on disk.")
        elif self._in_time(found, "A second start"):
            self._start_again(found, cold=sum(run.milliseconds for run in found.calls) / 1000)
        many = versions > FEW_VERSIONS and self._configuration.dynamic != "on"
        if not found.stopped and many and self._in_time(found, "dynamic=True"):
            self._try_dynamic(found, versions)
        return found

    def _child(self, configuration: Configuration, caches: str, passes: list[tuple[str, list[int]]]) -> Child:
        """Run one process to its end, or to its limit: all works in the order of each pass.

        Raises:
            UsageError: what was asked for cannot be; or the interpreter did not start.
        """
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
            return Child(read_warmed(log, [work.sizes for work in self._works]), ended)

    def _in_time(self, found: Warmup, what: str) -> bool:
        if self._until - time.monotonic() >= _LEAST_SECONDS:
            return True
        found.notes.append(f"{what}: not tried, the time was up.")
        return False

    def _start_again(self, found: Warmup, cold: float) -> None:
        second = self._child(self._configuration, "first", self._passes[:1])
        found.stopped = second.stopped
        if second.problem:
            found.notes.append(f"The second start failed: {second.problem}")
            return
        found.second_start = _second_start(second, cold)

    def _try_dynamic(self, found: Warmup, before: int) -> None:
        # A name of its own: what the program itself wrote would be compiled as it was written.
        tried = replace(self._configuration, name=_DYNAMIC, dynamic="on")
        child = self._child(tried, "dynamic", self._passes)
        found.stopped = child.stopped
        if child.stopped:
            found.notes.append(f"dynamic=True was tried: {child.problem}")
            return
        warmed = child.warmed
        calls = warmed.of(WARM_UP)
        trial = DynamicTrial(
            versions=warmed.most_versions,
            after_warmup=sum(compiled_anything(run) for run in warmed.of(SERVING)),
            in_eager=sum(bool(run.in_eager) for run in calls),
            error=child.problem or next((run.error for run in calls if run.error), ""),
        )
        found.dynamic_trial, found.dynamic_advice = trial, _advice(trial, before)


def _result(child: Child, configuration: Configuration) -> Warmup:
    """The result of the first process."""
    warmed = child.warmed
    calls, serving = warmed.of(WARM_UP), warmed.of(SERVING)
    found = Warmup(
        calls=calls,
        warm_after=warm_after([*calls, *serving]),
        after_warmup=[run for run in serving if compiled_anything(run)],
        functions=warmed.functions,
        dynamic=configuration.dynamic,
        reason=child.problem,
        stopped=child.stopped,
    )
    if warmed.ended is not None:
        found.recompile_limit, found.notes = warmed.ended.recompile_limit, list(warmed.ended.notes)
    if not found.reason and all(run.error for run in calls):
        found.reason = f"no call came to its end: {calls[0].error}" if calls else "there was no call"
    if not found.reason and not warmed.functions:
        found.reason = "nothing was compiled: every call ran in eager"
    return found


def _second_start(child: Child, cold: float) -> SecondStart:
    ended = child.warmed.ended
    counts = ended.cache if ended is not None else {}
    hits, misses, bypasses = (
        sum(count for name, count in counts.items() if name.endswith(end)) for end in ("_hit", "_miss", "_bypass")
    )
    bypassed = [each for compilation in child.warmed.compiled for each in compilation.cache_bypasses]
    return SecondStart(
        cold_seconds=round(cold, 3),
        warm_seconds=round(sum(run.milliseconds for run in child.warmed.of(WARM_UP)) / 1000, 3),
        hits=hits,
        misses=misses,
        bypasses=bypasses,
        warm=bool(hits) and not misses and not bypasses,
        reasons=list(dict.fromkeys(each.reason for each in bypassed)),
        said=next((" ".join(each.said.split()) for each in bypassed if each.said), ""),
    )


def _advice(trial: DynamicTrial, before: int) -> str:
    """What the trial showed, in one sentence."""
    if trial.error:
        return f"dynamic=True was tried, and did not work: {trial.error}"
    if trial.versions >= before:
        return f"dynamic=True was tried, and does not help: there are {trial.versions} graphs with it, {before} without"
    graphs = count_of(trial.versions, "graph")
    late = f"{trial.after_warmup} shapes still compiled after" if trial.after_warmup else "nothing compiled after"
    return f"dynamic=True was tried: {graphs} instead of {before}, and {late} the warm-up"


def _add_buckets(found: Warmup) -> None:
    """Sizes to pad to, where sizes cost more versions than automatic dynamic shapes have."""
    most = max((each.versions for each in found.functions), default=0)
    if most <= FEW_VERSIONS or any(run.error for run in found.calls):
        return
    shapes = [run.shape for run in found.calls]
    chosen = bucketed(shapes, [run.versions for run in found.calls], found.recompile_limit)
    if chosen is not None and chosen.merges(shapes):
        found.buckets, found.bucket_padding = chosen.records(shapes), round(chosen.padding, 4)
