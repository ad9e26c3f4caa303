"""What the child of the warm-up check wrote: each call with what it compiled, and the versions of each function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dynalyze.capture.events import (
    CompilerEvent,
    CompileStarted,
    Event,
    Frame,
    TorchLoaded,
    WarmupCall,
    WarmupCalled,
    WarmupEnded,
)
from dynalyze.capture.wire import LOOK, SERVING, WARM_UP
from dynalyze.events.log import RunLog
from dynalyze.facts.breaks import graph_breaks
from dynalyze.facts.compilations import NOTHING_TRACED, add_bypasses, compilations
from dynalyze.facts.recompiles import recompiles
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places, original_name
from dynalyze.report import Compilation, GraphBreak, Recompile
from dynalyze.report.audit import ShapeRun, WarmupFunction, WarmupRecompile

Key = tuple[int, str]
"""Epoch and compile id."""


@dataclass
class Call:
    """One call as the process wrote it; `ended` is missing where it did not come so far."""

    stage: str
    shape: int
    keys: list[Key] = field(default_factory=list)
    ended: WarmupCalled | None = None


@dataclass
class Warmed:
    """The calls of one process in their order, each with the name of its pass and the number of its shape."""

    calls: list[tuple[Call, ShapeRun]]
    functions: list[WarmupFunction]
    compiled: list[Compilation]
    ended: WarmupEnded | None

    def of(self, stage: str) -> list[ShapeRun]:
        """The calls of one pass that came to their end."""
        return [run for call, run in self.calls if call.stage == stage and call.ended is not None]

    @property
    def most_versions(self) -> int:
        return max((each.versions for each in self.functions), default=0)


def read_warmed(run: RunLog, shapes: Sequence[Mapping[str, int]]) -> Warmed:
    """The calls of a run, which its first process makes; `shapes` are those of its request."""
    folder = next((event.folder for _, event in run.all() if isinstance(event, TorchLoaded)), "")
    places, sources = Places(folder), Sources(run)
    compiled = compilations(run, places, sources)
    add_bypasses(run, compiled)
    breaks = graph_breaks(run, places, sources, registry(folder))
    again = [each for each in recompiles(run, compiled, breaks) if each.process == 0]
    own = [each for each in compiled if each.process == 0]
    own_breaks = [each for each in breaks if each.process == 0]
    events = run.processes[0].events if run.processes else []
    calls = _calls(events)
    runs = [(call, _shape_run(call, shapes[call.shape], own, own_breaks, again)) for call in calls]
    _add_later(runs, _names(run, compiled))
    ended = next((event for event in events if isinstance(event, WarmupEnded)), None)
    keys = {key for call in calls if call.stage in (WARM_UP, SERVING) for key in call.keys}
    functions = _functions([each for each in own if _key(each) in keys], [each for each in again if _key(each) in keys])
    return Warmed(runs, functions, compiled, ended)


def _key(fact: Compilation | Recompile) -> Key:
    return fact.epoch, fact.compile_id


def compiled_anything(run: ShapeRun) -> bool:
    """Whether torch compiled in this call, tried to, or gave up doing so."""
    return bool(run.compiles or run.eager_frames or run.recompiles)


def warm_after(runs: Sequence[ShapeRun]) -> int | None:
    """How many calls came before the first after which nothing was compiled; None where the last one compiled."""
    last = max((number for number, run in enumerate(runs, 1) if compiled_anything(run)), default=0)
    return None if runs and last == len(runs) else last


def _names(run: RunLog, compiled: Iterable[Compilation]) -> dict[tuple[str, int, str], str]:
    """What a compiled function is called, by its code."""
    functions = {(each.process, each.epoch, each.compile_id): each.location.function for each in compiled}
    found: dict[tuple[str, int, str], str] = {}
    for process, event in run.all():
        if isinstance(event, CompileStarted) and event.code is not None:
            found[_code(event.code)] = functions.get((process, event.epoch, event.id), "")
    return found


def _code(frame: Frame) -> tuple[str, int, str]:
    return frame.file, frame.line, frame.name


def _calls(events: Iterable[Event]) -> list[Call]:
    """The calls in their order; what the compiler begins between two of them belongs to neither."""
    calls: list[Call] = []
    current: Call | None = None
    seen: set[Key] = set()
    for event in events:
        if isinstance(event, WarmupCall):
            current = Call(event.stage, event.shape)
            calls.append(current)
        elif isinstance(event, WarmupCalled) and current is not None:
            current.ended, current = event, None
        elif isinstance(event, CompilerEvent) and current is not None and (event.epoch, event.id) not in seen:
            seen.add((event.epoch, event.id))
            current.keys.append((event.epoch, event.id))
    return calls


def _shape_run(
    call: Call,
    shape: Mapping[str, int],
    compiled: Sequence[Compilation],
    breaks: Sequence[GraphBreak],
    again: Sequence[Recompile],
) -> ShapeRun:
    keys = set(call.keys)
    again = [each for each in again if _key(each) in keys]
    refused = {_key(each) for each in again if each.cause == "limit"}
    tried = [each for each in compiled if _key(each) in keys - refused]
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
        breaks=sum(any((each.epoch, compile_id) in keys for compile_id in each.compile_ids) for each in breaks),
        eager_frames=sum(each.status in ("eager", "failed") and each.reason != NOTHING_TRACED for each in tried),
        error=ended.error,
    )  # fmt: skip


def _add_later(runs: Sequence[tuple[Call, ShapeRun]], names: Mapping[tuple[str, int, str], str]) -> None:
    """Give each call of the warm-up what later calls with its shape showed."""
    first = {call.shape: run for call, run in runs if call.stage == WARM_UP}
    for call, run in runs:
        mine = first.get(call.shape)
        if mine is None or call.ended is None or call.ended.error:
            continue
        if call.stage == SERVING and not compiled_anything(run):
            mine.later_milliseconds = run.milliseconds
        elif call.stage == LOOK:
            mine.versions = sorted({number for number, _ in call.ended.versions})
            eager = (names.get(_code(frame)) or original_name(frame.name) for frame in call.ended.in_eager)
            mine.in_eager = list(dict.fromkeys(eager))


def _functions(compiled: Iterable[Compilation], again: Iterable[Recompile]) -> list[WarmupFunction]:
    """The compiled functions with the number of their versions, most first; parts after a graph break count apart."""
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
