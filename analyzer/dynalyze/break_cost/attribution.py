"""The cost of each graph break, from the stamps of a measuring process and its recorded compiles."""

from __future__ import annotations

import statistics
from collections import defaultdict

from dynalyze.break_cost.child import GuardTime, Segment, StampedPasses
from dynalyze.break_cost.records import BreakPrice, CallPart, GuardGroup, GuardPrice, PartKind, Prices
from dynalyze.capture.events import CompileStarted
from dynalyze.events.log import RunLog
from dynalyze.facts.breaks import graph_breaks
from dynalyze.facts.compilations import compilations
from dynalyze.facts.guards import readable
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report import GraphBreak, Location
from dynalyze.report.intervals import Interval
from dynalyze.rules.recipe import setting_of

_LARGEST_GAP, _LARGEST_NOISE = 0.05, 0.1
"""How far the parts may add up to another sum than the call itself; where two halves of its own passes differ by more,
that far, up to the second."""
_FEWEST_PASSES = 6
_Z = 1.96

_NOTABLE_MS, _NOTABLE_SHARE = 0.02, 0.05
"""Something is said of guards where they take this much of a call, and this share: nobody changes code for less."""
_LARGE_GROUP, _MANY_SOURCES = 0.1, 10
_ADVICE = {
    "values": "read what forward needs of these once, in __init__, into a tuple of plain numbers and strings: "
    "few guards look at that (at a frozen dataclass, or a tuple of objects, as many as before)",
    "tensors": "keep these tensors as one, stacked: few guards look at that (at parameters and buffers as "
    "many as before)",
}
"""By what a group of guards holds. Each was measured on torch 2.13, as benchmarks/results/prices.md says."""


def guards_are_dear(prices: Prices) -> bool:
    """Whether guards cost so much of a call that a change may pay."""
    taken = sum(part.ms for part in prices.parts if part.kind == "guards")
    return prices.call_ms is not None and taken >= max(_NOTABLE_MS, _NOTABLE_SHARE * prices.call_ms.value)


def advise(prices: Prices, places: Places) -> None:
    """Name a change of the source for large groups of guards, if one is known and the source is the user's."""
    for each in prices.guards:
        own = each.place is not None and places.origin(each.place.file) == "user"
        for group in each.groups if own else ():
            if group.share >= _LARGE_GROUP and group.sources >= _MANY_SOURCES:
                group.advice = _ADVICE.get(group.holds, "")


class CompiledRecord:
    """What the measuring process compiled: breaks and compilations, by compile id."""

    def __init__(self, run: RunLog, folder: str) -> None:
        places, sources = Places(folder), Sources(run)
        compiled = compilations(run, places, sources)
        self.breaks = graph_breaks(run, places, sources, registry(folder), compiled)
        by_id = self._by_id = {each.id: each for each in self.breaks}
        # The last one of an id counts: torch._dynamo.reset() begins anew.
        self._by_compile = {each.compile_id: each for each in compiled}
        self._ended_by = {each.compile_id: by_id[each.breaks[-1]] for each in compiled if each.breaks}
        starts = [event for _, event in run.all() if isinstance(event, CompileStarted) and event.code is not None]
        self._tried = {(each.code.file, each.code.name, each.code.line): each.id for each in starts if each.code}

    def prices(self, answer: StampedPasses) -> Prices:
        calls = max(1, answer.calls)
        plain, stamped = answer.plain_ms, answer.stamped_ms
        if answer.problem or len(stamped) < _FEWEST_PASSES:
            return Prices(problem=answer.problem or "too few passes could be timed")
        quiet = _quieter_half(stamped)
        expected = [plain[index] for index in _quieter_half(plain)]
        found = Prices(call_ms=_interval([ms / calls for ms in expected]), passes=len(stamped), waited=answer.waited)
        total = statistics.fmean(stamped[index] for index in quiet)
        bound = min(max(_LARGEST_GAP, _drift(plain)), _LARGEST_NOISE) * statistics.fmean(expected)
        if abs(total - statistics.fmean(expected)) > bound:
            found.problem = (
                f"the parts of a call add up to {total / calls:.3g} ms, and a call takes "
                f"{statistics.fmean(expected) / calls:.3g} ms"
            )
            return found
        taken: dict[str, list[tuple[PartKind, list[float]]]] = defaultdict(list)
        unguarded: dict[str, float] = defaultdict(float)
        for segment in answer.segments:
            ms = [segment.ms[index] / calls for index in quiet]
            part = self._part(segment, statistics.fmean(ms))
            if part.break_id:
                taken[part.break_id].append((part.kind, ms))
            if bare := segment.unguarded_ms:
                guards = max(0.0, part.ms - statistics.fmean(sorted(bare)[: len(quiet)]) / calls)
                part.ms -= guards
                unguarded[segment.compile_id] += guards
                at = self._place(segment.compile_id)
                found.parts.append(CallPart("guards", guards, at, part.break_id, segment.compile_id))
            found.parts.append(part)
        found.parts = _joined(found.parts)
        call_ms = statistics.fmean(expected) / calls
        found.breaks = [_break_price(self._by_id[name], parts, call_ms) for name, parts in taken.items()]
        found.breaks.sort(key=lambda each: -each.ms.value)
        found.guards = [self._guards(name, each, unguarded[name]) for name, each in answer.guards.items()]
        found.guards.sort(key=lambda each: -each.us)
        found.runs = {name: count / calls for name, count in answer.hits.items()}
        return found

    def _part(self, segment: Segment, ms: float) -> CallPart:
        """A segment as a part of a call, with the graph break that it belongs to."""
        kind, compile_id = segment.kind, segment.compile_id
        if kind == "break":
            # The break that left a function in eager, or that ended the graph before.
            tried = self._tried.get(segment.function, "") if segment.function else ""
            known = filter(self._ended_by.get, (tried, compile_id, segment.opened_by))
            if (name := next(known, None)) is None:
                return CallPart("outside", ms)
            return CallPart(kind, ms, self._ended_by[name].location, self._ended_by[name].id)
        if kind == "resume" and (broken := self._ended_by.get(segment.opened_by)) is not None:
            return CallPart(kind, ms, broken.location, broken.id, compile_id)
        return CallPart(kind, ms, self._place(compile_id), "", compile_id)

    def _place(self, compile_id: str) -> Location | None:
        compiled = self._by_compile.get(compile_id)
        return None if compiled is None else compiled.location

    def _guards(self, compile_id: str, found: GuardTime, ms: float) -> GuardPrice:
        whole = found.us or 1.0
        groups = [
            GuardGroup(readable(each.source), each.sources, min(1.0, each.us / whole),
                       min(1.0, each.us / whole) * ms * 1e3, each.holds)
            for each in found.groups
        ]  # fmt: skip
        return GuardPrice(compile_id, self._place(compile_id), ms * 1e3, found.count, groups)


def _break_price(broken: GraphBreak, parts: list[tuple[PartKind, list[float]]], call_ms: float) -> BreakPrice:
    # Stamped passes may be a little longer than plain ones; no part of a call is longer than the call.
    whole = _interval([min(call_ms, sum(each)) for each in zip(*(ms for _, ms in parts), strict=True)])
    gap = sum(statistics.fmean(ms) for kind, ms in parts if kind == "break")
    return BreakPrice(
        place=broken.location,
        gb_type=broken.gb_type,
        ms=whole,
        gap_ms=gap,
        resume_ms=max(0.0, whole.value - gap),
        share=whole.value / call_ms if call_ms else 0.0,
        break_id=broken.id,
        without_ms=max(0.0, call_ms - whole.value),
        setting=setting_of(broken),
    )


def _quieter_half(samples: list[float]) -> list[int]:
    """Which passes were no slower than the median: the others include what else the machine did. Of many, the fastest
    eighth is left out too: a single lucky pass would count for all.
    """
    middle = statistics.median(samples)
    ordered = sorted(range(len(samples)), key=samples.__getitem__)
    return [index for index in ordered[len(samples) // 8 :] if samples[index] <= middle]


def _drift(samples: list[float]) -> float:
    """How much the two halves of the passes differ, as a share."""
    half = len(samples) // 2
    first, second = (
        statistics.fmean(part[i] for i in _quieter_half(part)) for part in (samples[:half], samples[half:])
    )
    return abs(first - second) / min(first, second) if min(first, second) > 0 else 0.0


def _interval(samples: list[float]) -> Interval:
    """The mean with its 95% interval, at least 0."""
    mean = statistics.fmean(samples)
    error = _Z * statistics.stdev(samples) / len(samples) ** 0.5 if len(samples) > 1 else 0.0
    return Interval(mean, max(0.0, mean - error), mean + error)


def _joined(parts: list[CallPart]) -> list[CallPart]:
    """Consecutive parts of one kind and owner are one."""
    joined: list[CallPart] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and (last.kind, last.break_id, last.place) == (part.kind, part.break_id, part.place):
            last.ms += part.ms
        elif part.ms > 0:
            joined.append(part)
    return joined
