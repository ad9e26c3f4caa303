"""Says what a job has just done, in one line each: by the facts and the words that a report has for the same."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.facts.build import assemble
from dynalyze.facts.registry import Registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report import Location, Report, Target
from dynalyze.rules.recompile_advice import what_changed
from dynalyze.rules.recompile_series import gather
from dynalyze.text.amounts import count_of, duration, listed
from dynalyze.watch.job import Change, Compile, Job, Process
from dynalyze.watch.records import Notice

_MOST_NOTICES = 2000
_MOST_NAMED = 4
# Of one function so many are told in a minute, then only when their number has doubled.
_TOLD_A_MINUTE, _MINUTE = 30, 60.0
_SHORT_WAIT = 0.05


class Teller:
    """Makes notices of what a job does, and keeps the latest. `untold` counts those that were held back."""

    def __init__(self, job: Job) -> None:
        self.notices: collections.deque[Notice] = collections.deque(maxlen=_MOST_NOTICES)
        self.untold = 0
        self._job = job
        self._rates: dict[tuple[bool, str, int], _Rate] = {}
        self._misses_told: set[tuple[str, tuple[str, int]]] = set()

    def news(self, now: float, at: float, *, over: bool = False) -> list[Notice]:
        """What is to be told by now; `at` is the time since 1970, `over`: nothing more will come."""
        told = [self._still(compile, at) for compile in self._job.long_compiles(at)]
        for change in self._job.settled(now, over=over):
            told += self._of_change(change)
        told += self._cache_misses()
        self.notices += told
        return told

    def add(self, notice: Notice) -> None:
        self.notices.append(notice)

    def _of_change(self, change: Change) -> Iterator[Notice]:
        """One notice for each value that changed, whichever ranks saw it; and one for what was compiled newly."""
        waited = {rank: each for rank, each in self._job.waits(change).items() if each >= _SHORT_WAIT}
        if (again := self._held_back(change.compiles[0])) is None:
            self.untold += 1
            return
        alone = bool(self._job.peers(change))
        found: dict[tuple[object, ...], Notice] = {}
        for name in sorted(change.processes, key=lambda name: self._job.processes[name].rank or 0):
            process = self._job.processes[name]
            for notice in self._of_process(process, [each for each in change.compiles if each.process == name]):
                key = (notice.kind, notice.location, notice.cause, notice.source, notice.what)
                same = found.setdefault(key, notice)
                if same is not notice:
                    same.ranks += notice.ranks
                    same.seconds = max(same.seconds or 0.0, notice.seconds or 0.0)
        # What others waited is told once, with what took longest.
        for number, notice in enumerate(sorted(found.values(), key=lambda each: -(each.seconds or 0.0))):
            notice.alone, notice.waited, notice.again = alone, {} if number else waited, 0 if number else again
        yield from found.values()

    def _of_process(self, process: Process, compiles: Sequence[Compile]) -> Iterator[Notice]:
        """What one rank's compiles are about."""
        report = _report(process, compiles)
        free, limited = gather(report)
        own = {each.key: each for each in compiles}
        at = round(max(0.0, min(each.began for each in compiles) - self._job.first), 3)
        ranks = [process.rank] if process.rank is not None else []
        for series in [*free, *(group.main for group in limited)]:
            lead = series.lead
            concerned = [own[key] for each in series.members if (key := (each.epoch, each.compile_id)) in own]
            yield Notice(
                "limit" if any(each.limit for each in concerned) else "recompile", what_changed(series), at,
                concerned[0].step if concerned else compiles[0].step, ranks, location=lead.location, cause=lead.cause,
                source=lead.source, expected=lead.expected, actual=lead.actual, guard=lead.guard,
                seconds=round(sum(each.seconds for each in concerned), 3),
            )  # fmt: skip
        if report.compilations and not free and not limited:  # Else it is the rest of the same functions.
            more = len(report.compilations) - 1
            note = f"{count_of(more, 'more function')} with it" if more else ""
            yield Notice(
                "compile", "", at, compiles[0].step, ranks, note=note,
                location=report.compilations[0].location, seconds=round(sum(each.seconds for each in compiles), 3),
            )  # fmt: skip

    def _still(self, compile: Compile, at: float) -> Notice:
        """A compile that others may be waiting for, before anybody knows how long it takes."""
        process = self._job.processes[compile.process]
        compilations = _report(process, [compile]).compilations
        return Notice(
            "compiling", "", round(compile.began - self._job.first, 3), compile.step,
            [process.rank] if process.rank is not None else [], seconds=round(at - compile.began, 3),
            location=compilations[0].location if compilations else None,
        )  # fmt: skip

    def _cache_misses(self) -> Iterator[Notice]:
        """Functions that one machine had to compile and others did not; each machine and function once."""
        for host, code, compiles in self._job.other_caches():
            if (host, code) in self._misses_told:
                continue
            self._misses_told.add((host, code))
            lead = compiles[0]
            ranks = (self._job.processes[each.process].rank for each in compiles)
            yield Notice(
                "cache-miss", "", round(lead.began - self._job.first, 3),
                lead.step, sorted({rank for rank in ranks if rank is not None}), alone=True,
                note=f"{host or 'one machine'} had no cache of it",
                location=_report(self._job.processes[lead.process], [lead]).compilations[0].location,
                seconds=round(max(each.seconds for each in compiles), 3),
            )  # fmt: skip

    def _held_back(self, compile: Compile) -> int | None:
        """How many changes of this function were held back before this one; None where it is to be held back too: of
        many only those are told that double their number.
        """
        rate = self._rates.setdefault((compile.limit, *compile.code), _Rate())
        if len(self._rates) > _MOST_NOTICES:
            self._rates.pop(next(iter(self._rates)))
        return rate.held_back(compile.began - self._job.first)


@dataclass
class _Rate:
    """How often something was told of late, and how many more were held back since."""

    times: collections.deque[float] = field(default_factory=lambda: collections.deque(maxlen=_TOLD_A_MINUTE))
    seen: int = 0
    next_told: int = 0
    held: int = 0

    def held_back(self, at: float) -> int | None:
        """How many were held back before this one; None where it is to be held back too."""
        self.seen += 1
        often = len(self.times) == _TOLD_A_MINUTE and at - self.times[0] < _MINUTE
        if often and self.seen < self.next_told:
            self.held += 1
            return None
        held, self.held = self.held, 0
        self.times.append(at)
        self.next_told = 2 * self.seen
        return held


def line_of(notice: Notice, ranks: int) -> str:
    """A notice in one line; the job has so many ranks."""
    name = _function(notice.location)
    said = {
        "recompile": f"recompiled {name}",
        "compile": f"compiled {name} for the first time",
        "compiling": f"still compiling {name}",
        "limit": f"{name} reached the recompile limit and runs in eager from here on",
        "cache-miss": f"compiled {name}, which other machines took from a cache",
        "memory": "memory is short",
    }[notice.kind]
    parts = [": ".join(filter(None, (f"{_who(notice, ranks)}{said}", notice.what, notice.note)))]
    if notice.seconds is not None:
        parts.append(f"{duration(notice.seconds)} {'so far' if notice.kind == 'compiling' else 'of compile time'}")
    if notice.waited:
        longest = max(notice.waited.values())
        waited = f"{count_of(len(notice.waited), 'other rank')} waited {duration(longest)}"
        parts.append(waited if len(notice.waited) == 1 else f"{waited} at most")
    if notice.again:
        parts.append(f"{count_of(notice.again, 'more', 'more')} like it since the last line")
    return "; ".join(parts)


def _who(notice: Notice, ranks: int) -> str:
    who = ""
    if len(notice.ranks) == ranks > 1:
        who = f"all {ranks} ranks"
    elif notice.ranks:
        named = listed([str(each) for each in sorted(notice.ranks)], _MOST_NAMED)
        who = f"rank{'s' if len(notice.ranks) > 1 else ''} {named}"
    step = f"step {notice.step:,}" if notice.step is not None else f"{duration(notice.at)}"
    return f"{who}, {step}: " if who else f"{step}: "


def _function(location: Location | None) -> str:
    if location is None or not location.file:
        return "a function"
    return f"{location.function} ({location.short})" if location.function else location.short


def _report(process: Process, compiles: Sequence[Compile]) -> Report:
    """The facts of a few compiles of one process, as a report of a whole run has them."""
    events = [event for each in compiles for event in each.events]
    run = RunLog([ProcessLog(0, process.started, list(events))])
    folder = process.torch.folder if process.torch is not None else ""
    return assemble(run, Target("trace", "job"), [], Places(folder), Sources(run), Registry({}), readable=False)
