"""Graph breaks of two reports: the same where cause, file, function and code line agree, wherever the line stands."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from dynalyze.comparison.pairing import Entry, Key, Side, entry, pair_up
from dynalyze.comparison.types import BreakChange, Breaks, BreakSide, Direction
from dynalyze.report import Effect, GraphBreak


class _Break(NamedTuple):
    """A break to match, and as it may be shown."""

    fact: GraphBreak
    shown: GraphBreak


_Entry = Entry[_Break]
_Name = Callable[[_Entry], Hashable]

_ORDER: tuple[Effect, ...] = ("split", "partly_eager", "eager", "error")


def compare_breaks(before: Side, after: Side) -> Breaks:
    """Sort all breaks of both reports; what the second report finds gives the advice."""
    advice = {identity: item.advice for item in reversed(after.shown.findings) for identity in item.evidence}
    found = Breaks()
    for old, new in pair_up(_entries(before), _entries(after), _keys()):
        change = _change(old and old.shown, new and new.shown, advice)
        _list_of(found, change).append(change)
    return found


def _entries(side: Side) -> list[_Entry]:
    both = zip(side.report.graph_breaks, side.shown.graph_breaks, strict=True)
    return [entry(_Break(item, shown), item.location, side.places) for item, shown in both]


def _list_of(found: Breaks, change: BreakChange) -> list[BreakChange]:
    if change.before is None:
        return found.new
    if change.after is None:
        return found.fixed
    seen = change.before.occurrences, change.after.occurrences
    return found.unchanged if change.direction == "same" and seen[0] == seen[1] else found.changed


def _change(old: GraphBreak | None, new: GraphBreak | None, advice: dict[str, str]) -> BreakChange:
    known = new or old
    assert known is not None
    direction: Direction = "same"
    if old and new and old.effect != new.effect:
        direction = "worse" if _ORDER.index(new.effect) > _ORDER.index(old.effect) else "better"
    told = advice.get(new.id, "") if new and (old is None or direction == "worse") else ""
    return BreakChange(known.gb_id, known.gb_type, _side(old), _side(new), direction, told)


def _side(item: GraphBreak | None) -> BreakSide | None:
    return BreakSide(item.id, item.effect, item.occurrences, item.location) if item else None


def _keys() -> list[tuple[Key[_Break], Key[_Break]]]:
    """From strict to lenient. Where one side has no code, the line within its function stands for it."""
    with_code = [_by_code(cause, function) for cause in (_cause, _type) for function in (_qualified, _bare)]
    without: list[tuple[Key[_Break], Key[_Break]]] = []
    for place in (_offset, _line):
        without += [(_if_no_code(place), place), (place, _if_no_code(place))]
    return [*((key, key) for key in with_code), *without]


def _by_code(cause: _Name, function: _Name) -> Key[_Break]:
    return lambda item: None if item.code is None else (cause(item), item.file, function(item), item.code)


def _if_no_code(key: Key[_Break]) -> Key[_Break]:
    return lambda item: key(item) if item.code is None else None


def _cause(item: _Entry) -> Hashable:
    """PyTorch's id keeps while its wording changes from version to version."""
    return item.fact.fact.gb_id or item.fact.fact.gb_type


def _type(item: _Entry) -> Hashable:
    """For a version of PyTorch that gives no id."""
    return item.fact.fact.gb_type


def _qualified(item: _Entry) -> Hashable:
    return item.function


def _bare(item: _Entry) -> Hashable:
    return item.bare_function


def _offset(item: _Entry) -> Hashable:
    return None if item.offset is None else (_cause(item), item.file, item.function, item.offset)


def _line(item: _Entry) -> Hashable:
    return _cause(item), item.file, item.bare_function, item.line
