"""Follows the ranks of a job: which compiled what in which step, and how long the others waited.

Takes the events of each process in order, live or from its files, with the same result. Its memory is bounded.
"""

from __future__ import annotations

import collections
import contextlib
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dynalyze.capture.events import (
    CompileEnded,
    CompilerEvent,
    CompileStarted,
    Event,
    Metrics,
    ProcessStarted,
    RecompileSeen,
    TorchLoaded,
)
from dynalyze.capture.torch_private.dynamo import compile_seconds
from dynalyze.capture.trace_records import hit_limit
from dynalyze.watch.child.events import RankSeen, RankState, StepReached, StepSlow
from dynalyze.watch.follow import Read
from dynalyze.watch.records import JobRank, TimelineCompile

WARM_AFTER = 10
"""Steps in a row without a compile after which a rank is warm."""
_WARM_SECONDS = 60.0
# How long a compile is kept before its notice: other ranks' steps have to end, and other compiles may belong to it.
_SETTLED_SECONDS, _MOST_SETTLED_SECONDS = 2.5, 4.5
_LONG_SECONDS = 30.0
# A process of another machine counts as gone after so long without a word.
_SILENT_SECONDS = 600.0
_MOST_SLOW, _MOST_COMPILES, _MOST_OPEN = 500, 20_000, 1000


@dataclass(slots=True)
class Compile:
    """One compile of one rank, with its events until its notice is given. `began` and `ended` are seconds since 1970 on
    its machine's clock.
    """

    process: str
    step: int | None
    began: float
    started: CompileStarted | None = None
    events: list[CompilerEvent] = field(default_factory=list)
    ended: float | None = None
    seconds: float = 0.0
    limit: bool = False
    reported: bool = False
    again: bool = False
    hits: int = 0
    misses: int = 0

    def slim(self) -> None:
        """Keep what the timeline and the place need: a job of weeks may compile without end."""
        if self.started is not None:
            self.started = replace(self.started, stack=[], names={})
        self.events = [self.started] if self.started is not None else []

    @property
    def key(self) -> tuple[int, str]:
        """Epoch and compile id; (0, "") where only its end is known."""
        return self.events[0].key if self.events else (0, "")

    @property
    def code(self) -> tuple[str, int]:
        """File and line of the function's definition."""
        code = self.started.code if self.started is not None else None
        return (code.file, code.line) if code is not None else ("", 0)


@dataclass
class Change:
    """The compiles of one step, of all ranks; their notice is due at `settled`."""

    compiles: list[Compile]
    settled: float

    def takes(self, other: Compile) -> bool:
        lead = self.compiles[0]
        if lead.step is None or other.step is None:
            return abs(lead.began - other.began) < _SETTLED_SECONDS
        return abs(lead.step - other.step) <= 1

    @property
    def processes(self) -> set[str]:
        return {each.process for each in self.compiles}


@dataclass
class RankProcess:
    """One process of the job, as known from its events and states."""

    name: str
    started: ProcessStarted = field(default_factory=lambda: ProcessStarted(pid=0))
    seen: RankSeen = field(default_factory=RankSeen)
    torch: TorchLoaded | None = None
    state: RankState = field(default_factory=RankState)
    moved: float = 0.0
    step: int | None = None
    warm: bool = False
    last_step: int | None = None
    last_at: float | None = None
    open: dict[tuple[int, str], Compile] = field(default_factory=dict)
    done: collections.OrderedDict[tuple[int, str], Compile] = field(default_factory=collections.OrderedDict)
    slow: collections.deque[StepSlow] = field(default_factory=lambda: collections.deque(maxlen=_MOST_SLOW))
    waited: float = 0.0
    compiles: int = 0
    recompiles: int = 0
    compile_seconds: float = 0.0

    @property
    def rank(self) -> int | None:
        known = (self.state.rank, self.seen.rank, self.started.rank)
        return next((each for each in known if each is not None), None)

    @property
    def host(self) -> str:
        return self.seen.host or self.state.host

    @property
    def group(self) -> tuple[int | None, int]:
        """World size and restart: ranks that share both wait for each other."""
        return self.seen.world or self.state.world, self.seen.restart or self.state.restart

    def lives(self, now: float) -> bool:
        """Whether it still runs, as far as this machine can tell; `now` is by the clock of `JobState.renew`."""
        if self.state.ended:
            return False
        if self.host == platform.node():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.started.pid or self.state.pid, 0)
                return True
            return False
        return now - self.moved < _SILENT_SECONDS

    def becomes_warm(self, compile: Compile) -> bool:
        """Whether this process had been warm before this compile, now or earlier."""
        if compile.step is not None and self.last_step is not None:
            # A count that is less than before began anew: an optimizer counts in the place of calls.
            before = self.last_step if self.last_step <= compile.step else 0
            self.warm |= compile.step - before > WARM_AFTER
        elif self.last_at is not None:
            self.warm |= compile.began - self.last_at > _WARM_SECONDS
        self.last_step, self.last_at = compile.step, compile.ended or compile.began
        return self.warm


class JobState:
    """`first` and `last` are the times of the job's first and last event, in seconds since 1970.

    `on_compile` is called at the end of each compile. A compile's notice is due after `patience` seconds; by default
    after as long as the ranks' steps take.
    """

    def __init__(self, patience: float | None = None) -> None:
        self._patience = patience
        self.on_compile: Callable[[RankProcess, Compile], None] = lambda process, compile: None
        self.processes: dict[str, RankProcess] = {}
        self.first = self.last = 0.0
        self.compiled: collections.deque[tuple[str, Compile]] = collections.deque(maxlen=_MOST_COMPILES)
        self._pending: list[Change] = []
        self._fresh: set[tuple[str, int]] = set()

    def feed(self, read: Read, now: float) -> None:
        """Take one event; `now` is by the clock of `settled`."""
        name, event = read
        process = self._process(name, event)
        process.moved = now
        if event.at:
            self.first = min(self.first or event.at, event.at)
            self.last = max(self.last, event.at)
        if isinstance(event, RankSeen):
            process.seen = event
        elif isinstance(event, TorchLoaded):
            process.torch = event
        elif isinstance(event, StepReached):
            process.step = event.number
        elif isinstance(event, StepSlow):
            process.slow.append(event)
        elif isinstance(event, CompileEnded):
            self._end(process, event, now)
        elif isinstance(event, CompilerEvent):
            self._add(process, event)

    def renew(self, states: Mapping[str, RankState], now: float) -> None:
        """Take the states of ranks."""
        for name, state in states.items():
            process = self._process(name, None)
            if state.at != process.state.at:
                process.moved = now
            process.state = state
            self.last = max(self.last, state.at)

    def settled(self, now: float, *, over: bool = False) -> Iterator[Change]:
        """Changes whose notice is due: other ranks are past their step, or have had the time; all of them if `over`."""
        for change in list(self._pending):
            if over or now >= change.settled or self._all_past(change):
                self._pending.remove(change)
                yield change
                for compile in change.compiles:
                    compile.slim()

    def long_compiles(self, at: float) -> Iterator[Compile]:
        """Compiles that have gone on for long, each once. `at` is in seconds since 1970."""
        for process in self.live():
            for compile in process.open.values():
                if not compile.reported and compile.started is not None and at - compile.began > _LONG_SECONDS:
                    compile.reported = True
                    yield compile

    def live(self) -> list[RankProcess]:
        """Processes that have not ended and that no elastic restart has replaced."""
        latest = max((each.group[1] for each in self.processes.values()), default=0)
        return [each for each in self.processes.values() if not each.state.ended and each.group[1] == latest]

    def peers(self, change: Change) -> list[RankProcess]:
        """The ranks that step together with those of a change and compiled nothing in it."""
        groups = {self.processes[each].group for each in change.processes}
        return [
            each for each in self.processes.values()
            if each.name not in change.processes and each.group in groups and (each.group[0] or 1) > 1
        ]  # fmt: skip

    def waits(self, change: Change) -> dict[str, float]:
        """Seconds by which the steps of other ranks were longer than usual meanwhile, by rank."""
        steps = {each.step + more for each in change.compiles if each.step is not None for more in (0, 1)}
        found = {}
        for peer in self.peers(change):
            waiting = [slow for slow in peer.slow if slow.number in steps and slow.usual is not None]
            waited = sum(max(0.0, slow.took - (slow.usual or 0.0) - slow.compiling) for slow in waiting)
            for slow in waiting:  # Else another change would be charged with it too.
                peer.slow.remove(slow)
            if waited:
                peer.waited += waited
                found[str(peer.rank)] = round(waited, 3)
        return found

    def other_caches(self) -> Iterator[tuple[str, tuple[str, int], list[Compile]]]:
        """Of the functions compiled since the last call, those that one machine compiled and others had cached: that
        machine, the function, its compiles.
        """
        fresh, self._fresh = self._fresh, set()
        if not fresh or len({each.host for each in self.processes.values()}) < 2:
            return
        hit: dict[tuple[str, int], set[str]] = {}
        missed: dict[tuple[tuple[str, int], str], list[Compile]] = {}
        for name, compile in self.compiled:
            if compile.code in fresh:
                host = self.processes[name].host
                if compile.misses:
                    missed.setdefault((compile.code, host), []).append(compile)
                elif compile.hits:
                    hit.setdefault(compile.code, set()).add(host)
        for (code, host), found in missed.items():
            if code in hit and host not in hit[code]:
                yield host, code, found

    def rows(self, names: list[str], now: float) -> list[JobRank]:
        """The report's records of these processes."""
        return [self._row(number, self.processes[name], now) for number, name in enumerate(names)]

    def timeline(self, names: list[str]) -> list[TimelineCompile]:
        """The latest compiles, in order."""
        numbers = {name: number for number, name in enumerate(names)}
        return [
            TimelineCompile(
                numbers[name], each.step, round(each.began - self.first, 3), round(each.seconds, 3), each.again
            )
            for name, each in self.compiled
        ]

    def _row(self, number: int, process: RankProcess, now: float) -> JobRank:
        state = process.state
        return JobRank(
            number, process.rank, process.host, process.started.pid, process.group[1],
            "ended" if state.ended else "running" if process.lives(now) else "gone",
            max(state.steps, process.step or 0),
            state.counted_by, None if state.usual is None else round(state.usual * 1e3, 3),
            max(state.compiles, process.compiles), max(state.recompiles, process.recompiles),
            round(max(state.compile_seconds, process.compile_seconds), 3), round(process.waited, 3),
        )  # fmt: skip

    def _process(self, name: str, event: Event | None) -> RankProcess:
        process = self.processes.setdefault(name, RankProcess(name))
        if isinstance(event, ProcessStarted):
            process.started = event
        return process

    def _add(self, process: RankProcess, event: CompilerEvent) -> None:
        compile = process.open.get(event.key)
        if compile is None:
            compile = process.open[event.key] = Compile(process.name, process.step, event.at)
            if len(process.open) > _MOST_OPEN:
                process.open.pop(next(iter(process.open)))
        compile.again |= isinstance(event, RecompileSeen)
        if isinstance(event, CompileStarted):
            compile.started, compile.began = event, event.at
            process.compiles += 1
            process.recompiles += not event.id.endswith("/0")
        compile.events.append(event)

    def _end(self, process: RankProcess, event: CompileEnded, now: float) -> None:
        took = compile_seconds(event.metrics)
        process.compile_seconds += took
        if event.backward:
            if (forward := process.done.get(event.key)) is not None:
                forward.seconds += took
            return
        compile = process.open.pop(event.key, None) or Compile(process.name, process.step, event.at)
        compile.events.append(event)
        compile.ended, compile.seconds, compile.limit = event.at, took, hit_limit(event.metrics)
        compile.hits, compile.misses = _cache_counts(event.metrics)
        process.done[event.key] = compile
        if len(process.done) > _MOST_SLOW:
            process.done.popitem(last=False)
        self.compiled.append((process.name, compile))
        self._fresh.add(compile.code)
        self.on_compile(process, compile)
        if process.becomes_warm(compile) or compile.limit:
            self._join(compile, now)
        else:
            compile.slim()

    def _join(self, compile: Compile, now: float) -> None:
        # Waits are known when the steps end; long ones end later.
        usual = max((each.state.usual or 0.0 for each in self.processes.values()), default=0.0)
        settled = now + (self._patience or min(max(_SETTLED_SECONDS, 1.5 * usual), _MOST_SETTLED_SECONDS))
        for change in self._pending:
            if change.takes(compile):
                change.compiles.append(compile)
                change.settled = settled
                return
        self._pending.append(Change([compile], settled))

    def _all_past(self, change: Change) -> bool:
        """Whether every rank that may have waited is two steps further, so that its wait is known."""
        steps = [each.step for each in change.compiles]
        if None in steps or not steps:
            return False
        furthest = max(step for step in steps if step is not None) + 1
        concerned = [*self.peers(change), *(self.processes[name] for name in change.processes)]
        return all(each.state.ended or each.state.steps > furthest for each in concerned)


def _cache_counts(metrics: Metrics) -> tuple[int, int]:
    """Hits and misses of Inductor's caches in a compile."""
    hits = metrics.get("inductor_fx_local_cache_hit_count", 0) + metrics.get("inductor_fx_remote_cache_hit_count", 0)
    return hits, metrics.get("inductor_fx_local_cache_miss_count", 0)
