"""What the guards of a compiled version cost per call, in all and by what they look at.

The cost of a group is the difference between checking all guards and all but the group's, on the arguments of a real
call. torch's own figure (guard_latency_us) is of one check with cold caches: up to eight times as much.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Literal

from dynalyze.break_cost.child import Group, GuardTime
from dynalyze.capture.torch_private import compiled_code
from dynalyze.capture.torch_private.compiled_code import CompiledVersion, GuardedSource

_SAMPLES, _SAMPLE_US = 15, 300.0
_MOST_GROUPS = 8
_FEWEST_SOURCES = 3
_WORTH, _LEAST_US = 0.02, 2.0  # Of what a group takes, as a share; of all guards together, to look for groups.
_NEARLY_ALL = 0.7
_OF_MODULES = ("._modules", "._parameters", "._buffers")
_OF_TENSORS, _OF_VALUES = "TENSOR_MATCH", frozenset({"EQUALS_MATCH", "TYPE_MATCH", "ID_MATCH"})


def guard_price(version: CompiledVersion, scope: dict[str, Any]) -> GuardTime | None:
    """The cost of one version's guards, for the locals of a call that it serves now; None if unknown."""
    names = set(version.original.co_varnames[: _arguments(version.original)]) | set(version.original.co_freevars)
    arguments = {name: value for name, value in scope.items() if name in names}
    whole = compiled_code.guards_without(version.guards, ())
    if whole is None or not _holds(whole, arguments):
        return None
    price = GuardTime(_microseconds(whole, scope=arguments)[0], compiled_code.guards_run(version.guards, arguments))
    groups: list[tuple[range, Group]] = []
    dear = price.us >= _LEAST_US
    every = compiled_code.guard_sources(version.guards) if dear else []
    for source, span in _candidates(every):
        check = compiled_code.guards_without(version.guards, {source})
        if check is not None and _holds(check, arguments):
            with_it, without = _microseconds(whole, check, scope=arguments)
            if with_it - without > _WORTH * with_it:
                holds = _holding([every[place] for place in span])
                groups.append((span, Group(source, len(span), with_it - without, holds)))
    price.groups = _disjoint(groups)[:_MOST_GROUPS]
    return price


def _arguments(code: CodeType) -> int:
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)


def _holds(check: Callable[[dict[str, Any]], bool], scope: dict[str, Any]) -> bool:
    try:
        return bool(check(scope))
    except Exception:
        return False


def _holding(sources: list[GuardedSource]) -> Literal["", "modules", "tensors", "values"]:
    """What most of these sources are, as far as their guards tell."""
    if any(each.name.endswith(_OF_MODULES) for each in sources):
        return "modules"
    tensors = sum(_OF_TENSORS in each.checks for each in sources)
    values = sum(bool(each.checks & _OF_VALUES) for each in sources)
    most = max(tensors, values)
    return "" if not most or 3 * most < len(sources) else "tensors" if tensors >= values else "values"


def _candidates(sources: Sequence[GuardedSource]) -> list[tuple[str, range]]:
    """Sources worth a group, with the positions in the list of themselves and all reached through them: the largest, at
    most some dozens.
    """
    found: dict[str, range] = {}
    for start, (source, depth, _) in enumerate(sources):
        end = next((at for at in range(start + 1, len(sources)) if sources[at].depth <= depth), len(sources))
        is_group = end - start > _FEWEST_SOURCES or depth <= 1
        if source not in ("L", "G", "") and is_group and end - start > len(found.get(source, ())):
            found[source] = range(start, end)
    return sorted(found.items(), key=lambda each: -len(each[1]))[: 4 * _MOST_GROUPS]


def _disjoint(groups: list[tuple[range, Group]]) -> list[Group]:
    """Of nested groups the narrowest that has nearly all of the cost; the costliest first."""
    kept: list[tuple[range, Group]] = []
    for span, group in sorted(groups, key=lambda each: len(each[0])):
        inside = [other for other in kept if other[0].start in span]
        if sum(other.us for _, other in inside) < _NEARLY_ALL * group.us:
            kept = [other for other in kept if other not in inside]
            kept.append((span, group))
    return sorted((group for _, group in kept), key=lambda each: -each.us)


def _microseconds(*checks: Callable[[dict[str, Any]], bool], scope: dict[str, Any]) -> list[float]:
    """The least time of each check, in alternating loops long enough for the clock."""
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
