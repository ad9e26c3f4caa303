"""Recompiles of two reports: the same where function, cause and source agree, and counted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import NamedTuple

from dynalyze.comparison.pairing import Entry, Key, Side, entry, pair_up
from dynalyze.comparison.types import Direction, RecompileChange, Recompiles, RecompileSide
from dynalyze.report import Recompile


class _Recompile(NamedTuple):
    """A recompile to match, and as it may be shown."""

    fact: Recompile
    shown: Recompile


_Group = list[_Recompile]
_Entry = Entry[_Group]


def compare_recompiles(before: Side, after: Side) -> Recompiles:
    """Sort all recompiles of both reports, one entry for each function, cause and source."""
    found = Recompiles(_count(before.report.recompiles), _count(after.report.recompiles))
    # A report made with --no-source tells no sources: the cause must do.
    told = _tells_sources(before.report.recompiles) and _tells_sources(after.report.recompiles)
    keys = [_key(lambda item: item.function, told), _key(lambda item: item.bare_function, told)]
    ours, theirs = _groups(before, keys[0]), _groups(after, keys[0])
    for old, new in pair_up(ours, theirs, [(key, key) for key in keys]):
        change = _change(old, new, after if new else before, told)
        _list_of(found, change).append(change)
    return found


def _change(old: _Group | None, new: _Group | None, side: Side, told: bool) -> RecompileChange:
    known = (new or old or [])[0].shown
    return RecompileChange(
        function=side.names.function(known.location),
        cause=known.cause,
        source=known.source if told else None,
        before=_side(old),
        after=_side(new),
        direction=_direction(len(old or ()), len(new or ())),
    )


def _count(recompiles: Iterable[Recompile]) -> int:
    return sum(item.cause != "limit" for item in recompiles)


def _tells_sources(recompiles: list[Recompile]) -> bool:
    return not recompiles or any(item.source is not None or item.guard for item in recompiles)


def _key(function: Callable[[_Entry], Hashable], told: bool) -> Key[_Group]:
    def key(item: _Entry) -> Hashable:
        first = item.fact[0].fact
        # The limit is one event of a function, whichever guard failed last.
        source = first.source if told and first.cause != "limit" else None
        return first.cause, item.file, function(item), source

    return key


def _groups(side: Side, key: Key[_Group]) -> list[_Entry]:
    groups: dict[Hashable, _Entry] = {}
    for item, shown in zip(side.report.recompiles, side.shown.recompiles, strict=True):
        alone = entry([_Recompile(item, shown)], item.location, side.places)
        groups.setdefault(key(alone), replace(alone, fact=[])).fact.extend(alone.fact)
    return list(groups.values())


def _side(group: _Group | None) -> RecompileSide | None:
    if not group:
        return None
    first = group[0].shown
    times = [item.seconds for _, item in group if item.seconds is not None]
    seconds = sum(times) if len(times) == len(group) else None
    return RecompileSide(len(group), first.location, first.expected, first.actual, seconds)


def _direction(before: int, after: int) -> Direction:
    if not before or not after or before == after:
        return "same"
    return "worse" if after > before else "better"


def _list_of(found: Recompiles, change: RecompileChange) -> list[RecompileChange]:
    if change.before is None:
        return found.new
    if change.after is None:
        return found.fixed
    return found.unchanged if change.direction == "same" else found.changed
