"""Which graph breaks of a sweep only follow from others: fixing those others ends them too.

PyTorch reports a loop around a broken call as a break of its own, and a wrapper that has to start anew because the call
below it broke. Such an entry leads no list, as long as no item has it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from dynalyze.rules.recipe import recipes
from dynalyze.sweep.records import Row, RowBreak

Place = tuple[str, int, str]
"""Path, line and type of a break."""

# A library's wrapper of a forward fails at its own start where dynamo meets it by itself, after a break above it.
_RESTARTED = frozenset(["Missing tp_iternext"])


def place_of(found: RowBreak) -> Place:
    """Where a break stands, equal on every machine."""
    return found.path or found.file, found.line, found.gb_type


def following(items: Iterable[Row]) -> frozenset[Place]:
    """The places that break only beside another break of the same item, at the same or an enclosing place."""
    beside: set[Place] = set()
    alone: set[Place] = set()
    for row in items:
        causes = [found for found in row.breaks if not _may_follow(found)]
        for found in row.breaks:
            if _may_follow(found):
                (beside if _explained(found, causes) else alone).add(place_of(found))
    return frozenset(beside - alone)


def _may_follow(found: RowBreak) -> bool:
    return found.gb_type in _enclosing() or (found.gb_type in _RESTARTED and _is_shared(found))


@lru_cache(maxsize=1)
def _enclosing() -> frozenset[str]:
    """The types by which PyTorch reports what a break inside did to the code around it."""
    return frozenset(gb_type for recipe in recipes() if recipe.kind == "consequence" for gb_type in recipe.gb_types)


def _is_shared(found: RowBreak) -> bool:
    """Whether the line is a library's, and no model's own."""
    return "-packages/" in found.file and "/models/" not in found.file


def _explained(found: RowBreak, causes: Sequence[RowBreak]) -> bool:
    # Without a caller it stands in the outermost frame of its compile, which encloses what is compiled below it.
    return bool(causes) and (not found.caller or any(_files(found) & _files(cause) for cause in causes))


def _files(found: RowBreak) -> set[str]:
    """The file of a break, and that of the model's line which led there."""
    caller = found.caller.rpartition(":")[0]
    return {found.path or found.file, caller} - {""}
