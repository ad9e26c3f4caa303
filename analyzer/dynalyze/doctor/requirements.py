"""Whether a version is what a requirement such as "torch<3,>=2.4" asks for, without a package for it.

Only the numbers of a release count: what comes after them (rc1, .post2, +cu128) is left out on both sides.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from itertools import zip_longest

_NAME = re.compile(r"\s*[\w.-]+?\s*(?:\[[^\]]*\])?\s*(?=[<>=!~(]|$)")
_CLAUSE = re.compile(r"(===|[<>=!~]=|[<>])\s*([^\s,;)]+)")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_ORDERED: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def meets(version: str, requirement: str) -> bool:
    """Whether it meets every clause; one that cannot be read asks for nothing."""
    return all(_holds(version, sign, wanted) for sign, wanted in _clauses(requirement))


def exactly(requirement: str) -> str | None:
    """The only version that it takes, if it names one."""
    return next((wanted for sign, wanted in _clauses(requirement) if sign in ("==", "===") and "*" not in wanted), None)


def named(requirement: str) -> str:
    """The package that it is about."""
    found = _NAME.match(requirement)
    return found[0].partition("[")[0].strip() if found else requirement


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version."""
    found = _NUMBERS.search(version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _clauses(requirement: str) -> list[tuple[str, str]]:
    return _CLAUSE.findall(requirement)


def _holds(version: str, sign: str, wanted: str) -> bool:
    have, want = release(version), release(wanted)
    if not have or not want:
        return True
    order = _compared(have, want)
    if sign in _ORDERED:
        return _ORDERED[sign](order, 0)
    if sign == "~=":
        return order >= 0 and have[: len(want) - 1] == want[:-1]
    same = have[: len(want)] == want if "*" in wanted else order == 0
    return not same if sign == "!=" else same


def _compared(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """As numbers, place by place: 2.8 is 2.8.0."""
    for one, other in zip_longest(left, right, fillvalue=0):
        if one != other:
            return 1 if one > other else -1
    return 0
