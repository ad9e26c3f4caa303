"""Tries the settings of torch that findings name, on the recorded calls of a program that was explained.

First traced alone, with eager's kernels: what breaks and what compiles again is decided there, and it takes a fraction
of compiling. What helps is compiled then by the program's own backend, which refuses some graphs that settings make.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.workers import Stopped, WorkerFailed, WorkerPool
from dynalyze.capture.bench import commands
from dynalyze.capture.events import TorchLoaded
from dynalyze.events.reading import read_run
from dynalyze.facts.compiled_calls import CompiledCalls, compiled_calls
from dynalyze.launch.interrupts import how_it_ended
from dynalyze.launch.observe import Observed
from dynalyze.launch.streams import progress_line
from dynalyze.report import Finding, GraphBreak, Recompile, Report
from dynalyze.rules.recompile_series import spared_by_dynamic
from dynalyze.rules.rule import judge
from dynalyze.rules.settings import ALL_SIZES, LIMIT, as_python, gone, merged
from dynalyze.trials.child import CompileWith
from dynalyze.trials.records import SettingTrial, SettingTrials
from dynalyze.trials.settings import named_by

_SHARE = 0.5  # Of what the benchmark may take.
_OF_COMPILING = 1 / 3  # Of what the program compiled for, where that is more: what took it long to trace does so here.
_MOST = 2.0  # Of what the benchmark may take.
_MOST_TRIED = 5
_DYNAMIC = "dynamic=True"
_OF_TENSOR = re.compile(r"(?P<tensor>.+)\.(?:size|stride|storage_offset)\(\).*", re.DOTALL)


@dataclass
class Advised:
    """Settings by name, and the ids of what they are advised for."""

    settings: dict[str, object]
    against: list[str]


class CompileOfCalls(Protocol):
    """What the recorded calls compile with some settings, and what they raise; see `CompileWith`."""

    def __call__(self, settings: dict[str, object], *, traced: bool = True) -> tuple[CompiledCalls, str]: ...


def go_on(seen: Observed, plan: Plan, pool: WorkerPool) -> None:
    """Add `trials` to the report, if findings name settings that can be tried."""
    report = seen.report
    torch = seen.log.last(TorchLoaded)
    # How often effects are repeated was said before the benchmark: these passes are not among them.
    if torch is None or (report.capture.outside_effects and not plan.sandboxed):
        return
    static = bool(report.capture.static) or plan.first.dynamic == "off"
    advised = candidates(report, judge(report), static=static)
    if not advised:
        return
    show, _ = progress_line(pool.streams)
    show("trying the settings that the advice names")
    compiling = sum(each.seconds.get("total", 0.0) for each in report.compilations)
    total = plan.total or 0.0
    seconds = min(max(_SHARE * total, _OF_COMPILING * compiling), _MOST * total)
    pool.begin(seconds, lambda: None)
    found, why = SettingTrials(), ""
    try:
        with pool.worker(worker_request(plan, plan.works[0], plan.first), None) as worker:
            found.calls = worker.ask(commands.Load()).calls

            def compiled(settings: dict[str, object], *, traced: bool = True) -> tuple[CompiledCalls, str]:
                answer = worker.ask(CompileWith(settings, traced))
                return compiled_calls(read_run(worker.folder / answer.folder), torch.folder), answer.raised

            why = try_all(report, advised, found, compiled)
    except WorkerFailed as failure:
        why = failure.message.rstrip(".")
    except Stopped as stopped:
        why = f"no time left of {seconds:.0f} s"
        if stopped.reason == "interrupted":
            report.outcome.status, report.outcome.message = "interrupted", how_it_ended()
    if found.tried:
        setattr(report, "trials", found)  # noqa: B010  a field of this feature: the type checker does not know it
    if why:
        which = (
            "Not all settings that the advice names were"
            if found.tried
            else "The settings that the advice names were not"
        )
        report.capture.notes.append(f"{which} tried: {why}.")


def candidates(report: Report, findings: Iterable[Finding], *, static: bool = False) -> list[Advised]:
    """Each setting that findings name, once, with `dynamic=True` where it is said of sizes, unless the program compiles
    `static`: its own `dynamic=False` would overrule that setting.
    """
    found: dict[str, Advised] = {}
    again = {each.id: each for each in report.recompiles}
    for finding in findings:
        limits = [each for each in finding.evidence if each in again and again[each].cause == "limit"]
        # Calls that do not reach the limit tell nothing of a higher one.
        wanted = [(each, limits if LIMIT in each else finding.evidence) for each in named_by(finding)]
        if _DYNAMIC in finding.advice and not static:
            sizes = [each for each in finding.evidence if each in again and spared_by_dynamic(again[each])]
            wanted.append((ALL_SIZES, sizes))
        for settings, against in wanted:
            if settings and against:
                one = found.setdefault(as_python(settings), Advised(settings, []))
                one.against += [each for each in against if each not in one.against]
    return list(found.values())


def try_all(report: Report, advised: list[Advised], found: SettingTrials, compiled: CompileOfCalls) -> str:
    """Each setting alone, then all that help at once: those that end something, and that the program's backend compiles
    the calls with. Returns why none could be tried, if so.
    """
    before, raised = compiled({})
    if raised:
        return f"the calls raise {raised.rstrip('.')}"
    found.breaks, found.recompiles = len(before.breaks), len(before.recompiles)
    helping: list[tuple[dict[str, object], SettingTrial]] = []
    for one in advised[:_MOST_TRIED]:
        met = _met(report, one.against, before)
        if not met:
            continue
        try:
            trial = tried(report, one.settings, met, before, *compiled(one.settings))
        except WorkerFailed as failure:
            if failure.kind in ("died", "timed_out"):
                raise
            continue  # This torch has no such setting.
        found.tried.append(trial)
        if trial.ended:
            helping.append((one.settings, trial))
    while helping:
        every = functools.reduce(merged, (settings for settings, _ in helping))
        if len(helping) > 1:
            met = list(dict.fromkeys(each for _, trial in helping for each in trial.against))
            found.together = tried(report, every, met, before, *compiled(every))
        left = _compiling(helping, found, compiled)
        if len(left) == len(helping):
            break
        helping, found.together = left, None
    return ""


def _compiling(
    helping: list[tuple[dict[str, object], SettingTrial]], found: SettingTrials, compiled: CompileOfCalls
) -> list[tuple[dict[str, object], SettingTrial]]:
    """Those with which the program's backend compiles the calls, as is noted in their trials; all where these raise as
    they are, or time is up.
    """
    every = functools.reduce(merged, (settings for settings, _ in helping))
    together = [found.together] if found.together is not None else []
    try:
        _, raised = compiled(every, traced=False)
        if not raised:
            for trial in [*(trial for _, trial in helping), *together]:
                trial.compiled = True
            return helping
        if compiled({}, traced=False)[1]:
            return helping
        for trial in together:
            trial.ended, trial.problem = [], raised
        alone = [raised if len(helping) == 1 else compiled(settings, traced=False)[1] for settings, _ in helping]
    except Stopped as stopped:
        if stopped.reason == "interrupted":
            raise
        return helping
    for (_, trial), problem in zip(helping, alone, strict=True):
        trial.compiled, trial.problem = not problem, problem
        if problem:
            trial.ended = []
    return [each for each, problem in zip(helping, alone, strict=True) if not problem]


def tried(
    report: Report,
    settings: dict[str, object],
    met: list[str],
    before: CompiledCalls,
    after: CompiledCalls,
    raised: str = "",
) -> SettingTrial:  # fmt: skip
    """The trial of some settings; `met` are ids of the report that the calls meet without them."""
    breaks = [each for each in report.graph_breaks if each.id in met]
    left = {_place(each) for each in after.breaks}
    known = {each.location.at for each in before.breaks}
    new = list({each.location.at: each.location for each in after.breaks if each.location.at not in known}.values())
    ended = [each.id for each in breaks if _place(each) not in left]
    wanted = [each for each in report.recompiles if each.id in met]
    ended += _ended(wanted, before.recompiles, after.recompiles)
    return SettingTrial(
        as_python(settings), met, [] if raised else ended, len(after.breaks), len(after.recompiles), new,
        _instead(wanted, before.recompiles, after.recompiles), problem=raised,
    )  # fmt: skip


def _ended(wanted: list[Recompile], before: list[Recompile], after: list[Recompile]) -> list[str]:
    """Those that are gone, by id. No more than there are fewer of in their functions: what sets off a recompile in the
    place of another ends nothing.
    """
    functions = {_function(each) for each in wanted}
    was, now = ([each for each in some if _function(each) in functions] for some in (before, after))
    if len(now) >= len(was) and not any(each.cause == "limit" for each in now):
        return [each.id for each in wanted if each.cause == "limit"]  # More versions, and nothing left in eager.
    return [each.id for each in gone(wanted, now)][: max(0, len(was) - len(now))]


def _instead(wanted: list[Recompile], before: list[Recompile], after: list[Recompile]) -> Recompile | None:
    """The first one for the same tensors that is there only with a setting. What else is new may come of the order of
    trials, as a cache of a package that the first one filled. It has no id: those of the report are other ones.
    """
    tensors = {(_function(each), _tensor(source)) for each in wanted for source in _sources(each)}
    new = [each for each in gone(after, before) if (_function(each), _tensor(each.source)) in tensors]
    return replace(new[0], id="", compile_id="", previous=None) if new else None


def _sources(recompile: Recompile) -> Iterator[str]:
    """Those of the tensors whose size, stride or offset failed."""
    named = (recompile.source, *(each.source for each in recompile.also))
    yield from (source for source in named if source is not None and _tensor(source))


def _tensor(source: str | None) -> str:
    """The tensor whose size, stride or offset a source is; "" for others."""
    found = _OF_TENSOR.fullmatch(source or "")
    return found["tensor"] if found is not None else ""


def _met(report: Report, names: list[str], before: CompiledCalls) -> list[str]:
    """Those graph breaks and recompiles of the report that the recorded calls meet as well."""
    places = {_place(each) for each in before.breaks}
    again = [each for each in report.recompiles if each.id in names]
    missing = gone(again, before.recompiles)
    met = {each.id for each in report.graph_breaks if _place(each) in places}
    met |= {each.id for each in again if each not in missing}
    return [each for each in names if each in met]


def _function(recompile: Recompile) -> tuple[str, str]:
    return recompile.location.file, recompile.location.function


def _place(broken: GraphBreak) -> tuple[tuple[str, int], str]:
    return broken.location.at, broken.gb_type
