"""Notices of a job and their lines, made of the same facts and words as a report."""

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
from dynalyze.watch.job import Change, Compile, JobState, RankProcess
from dynalyze.watch.records import Notice

_MOST_NOTICES = 2000
_MOST_NAMED = 4
# Notices of one function in a minute; after that one whenever their number has doubled.
_MOST_A_MINUTE, _MINUTE = 30, 60.0
_SHORT_WAIT = 0.05


class Notices:
    """Makes the notices of a job and keeps the latest; `untold` counts changes that were held back."""

    def __init__(self, job: JobState) -> None:
        self.latest: collections.deque[Notice] = collections.deque(maxlen=_MOST_NOTICES)
        self.untold = 0
        self._job = job
        self._rates: dict[tuple[bool, str, int], _Rate] = {}
        self._known_misses: set[tuple[str, tuple[str, int]]] = set()

    def news(self, now: float, at: float, *, over: bool = False) -> list[Notice]:
        """The notices since the last call; `at` are seconds since 1970. `over`: no more events will come."""
        found = [self._still_compiling(compile, at) for compile in self._job.long_compiles(at)]
        for change in self._job.settled(now, over=over):
            found += self._of_change(change)
        found += self._cache_misses()
        self.latest += found
        return found

    def add(self, notice: Notice) -> None:
        self.latest.append(notice)

    def _of_change(self, change: Change) -> Iterator[Notice]:
        """One notice for each value that changed, whichever ranks saw it, and one for new functions."""
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
        # Waits belong to the change as a whole: they stand with the longest compile.
        for number, notice in enumerate(sorted(found.values(), key=lambda each: -(each.seconds or 0.0))):
            notice.alone, notice.waited, notice.again = alone, {} if number else waited, 0 if number else again
        yield from found.values()

    def _of_process(self, process: RankProcess, compiles: Sequence[Compile]) -> Iterator[Notice]:
        """The notices of one rank's compiles."""
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

    def _still_compiling(self, compile: Compile, at: float) -> Notice:
        """The notice of a compile that has not ended, for which others may be waiting."""
        process = self._job.processes[compile.process]
        compilations = _report(process, [compile]).compilations
        return Notice(
            "compiling", "", round(compile.began - self._job.first, 3), compile.step,
            [process.rank] if process.rank is not None else [], seconds=round(at - compile.began, 3),
            location=compilations[0].location if compilations else None,
        )  # fmt: skip

    def _cache_misses(self) -> Iterator[Notice]:
        """Notices of functions that one machine had to compile and others had cached, each once."""
        for host, code, compiles in self._job.other_caches():
            if (host, code) in self._known_misses:
                continue
            self._known_misses.add((host, code))
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
        """How many changes of this function were held back since its last notice; None to hold this one back too."""
        rate = self._rates.setdefault((compile.limit, *compile.code), _Rate())
        if len(self._rates) > _MOST_NOTICES:
            self._rates.pop(next(iter(self._rates)))
        return rate.held_back(compile.began - self._job.first)


@dataclass
class _Rate:
    """When notices of one function were given, and how many were held back since."""

    times: collections.deque[float] = field(default_factory=lambda: collections.deque(maxlen=_MOST_A_MINUTE))
    seen: int = 0
    next_shown: int = 0
    held: int = 0

    def held_back(self, at: float) -> int | None:
        """As `_held_back`, for a change at this second."""
        self.seen += 1
        often = len(self.times) == _MOST_A_MINUTE and at - self.times[0] < _MINUTE
        if often and self.seen < self.next_shown:
            self.held += 1
            return None
        held, self.held = self.held, 0
        self.times.append(at)
        self.next_shown = 2 * self.seen
        return held


def line_of(notice: Notice, ranks: int) -> str:
    """A notice in one line, for a job of so many ranks."""
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


def _report(process: RankProcess, compiles: Sequence[Compile]) -> Report:
    """A report of a few compiles of one process, without findings."""
    events = [event for each in compiles for event in each.events]
    run = RunLog([ProcessLog(0, process.started, list(events))])
    folder = process.torch.folder if process.torch is not None else ""
    return assemble(run, Target("trace", "job"), [], Places(folder), Sources(run), Registry({}), readable=False)
