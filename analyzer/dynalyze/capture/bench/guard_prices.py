"""What the guards of a compiled version cost each call, in all and by what they look at.

A group's price is the difference between checking all guards and all but the group's, on the arguments of a real call.
torch's own figure (guard_latency_us) is of one check with cold caches: up to eight times what a call pays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from dynalyze.capture.torch_private import compiled_code
from dynalyze.capture.torch_private.compiled_code import Version

_SAMPLES, _SAMPLE_US = 15, 300.0
_MOST_GROUPS = 8
_FEWEST_SOURCES = 3
_WORTH = 0.02


@dataclass
class Group:
    """Guards on one source and on all that is reached by it: `source` in the words of the function's own arguments."""

    source: str
    sources: int
    us: float


@dataclass
class GuardPrice:
    """Microseconds of one check of all guards; `count` of them, None where torch does not tell."""

    us: float
    count: int | None
    groups: list[Group] = field(default_factory=list)


def guard_price(version: Version, scope: dict[str, Any]) -> GuardPrice | None:
    """The price of one version's guards, for the locals of a call that it serves now; None where it cannot be had."""
    names = set(version.original.co_varnames[: _arguments(version.original)]) | set(version.original.co_freevars)
    arguments = {name: value for name, value in scope.items() if name in names}
    whole = compiled_code.guards_without(version.guards, ())
    if whole is None or not _holds(whole, arguments):
        return None
    price = GuardPrice(_microseconds(whole, scope=arguments)[0], compiled_code.guards_run(version.guards, arguments))
    for source, below in _candidates(compiled_code.guard_sources(version.guards)):
        check = compiled_code.guards_without(version.guards, {source})
        if check is not None and _holds(check, arguments):
            with_it, without = _microseconds(whole, check, scope=arguments)
            if with_it - without > _WORTH * with_it:
                price.groups.append(Group(source, below, with_it - without))
    price.groups = _disjoint(price.groups)[:_MOST_GROUPS]
    return price


def _arguments(code: CodeType) -> int:
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)


def _holds(check: Callable[[dict[str, Any]], bool], scope: dict[str, Any]) -> bool:
    try:
        return bool(check(scope))
    except Exception:
        return False


def _candidates(sources: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Sources worth a group, each with how many are reached by it: the largest first, at most some dozens."""
    sizes: list[tuple[str, int]] = []
    for index, (source, depth) in enumerate(sources):
        below = 0
        for _, other in sources[index + 1 :]:
            if other <= depth:
                break
            below += 1
        if source not in ("L", "G", "") and (below >= _FEWEST_SOURCES or depth <= 1):
            sizes.append((source, below + 1))
    largest: dict[str, int] = {}
    for source, below in sizes:
        largest[source] = max(below, largest.get(source, 0))
    return sorted(largest.items(), key=lambda each: -each[1])[: 4 * _MOST_GROUPS]


def _disjoint(groups: list[Group]) -> list[Group]:
    """Of groups that hold each other the narrowest that has nearly all of the price; the dearest first."""
    kept: list[Group] = []
    for group in sorted(groups, key=lambda each: (each.sources, -each.us)):
        inside = sum(other.us for other in kept if other.source.startswith(group.source))
        if inside < 0.7 * group.us:
            kept = [other for other in kept if not other.source.startswith(group.source)]
            kept.append(group)
    return sorted(kept, key=lambda each: -each.us)


def _microseconds(*checks: Callable[[dict[str, Any]], bool], scope: dict[str, Any]) -> list[float]:
    """The least that each check takes, of loops that take turns and are long enough for the clock."""
    least = []
    for check in checks:
        check(scope)
        began = time.perf_counter_ns()
        check(scope)
        least.append(max(0.05, (time.perf_counter_ns() - began) / 1e3))
    loops = [max(1, int(_SAMPLE_US / once)) for once in least]
    for _ in range(_SAMPLES):
        for index, check in enumerate(checks):
            began = time.perf_counter_ns()
            for _ in range(loops[index]):
                check(scope)
            least[index] = min(least[index], (time.perf_counter_ns() - began) / 1e3 / loops[index])
    return least
