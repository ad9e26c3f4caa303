"""Sweep -> summary: breaks clustered by code line and by cause, shares by family, errors grouped alike.

PyTorch reports a loop around a broken call as a break of its own, and a wrapper that has to start anew because the call
below it broke. Such a break follows from others and leads no list, as long as no item has it alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from statistics import median
from typing import TypeVar, get_args

from dynalyze.report.measurements import SpeedVerdict
from dynalyze.rules.recipe import recipes
from dynalyze.sweep.records import (
    STATUSES,
    BrokenLine,
    Caller,
    Cause,
    ErrorGroup,
    MatrixRow,
    Place,
    Reason,
    Row,
    RowBreak,
    Rows,
    Share,
    SpeedTotal,
    Sweep,
    SweepSummary,
)

# A library's wrapper of a forward fails at its own start where dynamo meets it by itself, after a break above it.
_RESTARTED = frozenset(["Missing tp_iternext"])


def following(items: Iterable[Row]) -> frozenset[Place]:
    """The places that break only beside another break of the same item, at the same or an enclosing place."""
    beside: set[Place] = set()
    alone: set[Place] = set()
    for row in items:
        causes = [_files(found) for found in row.breaks if not _may_follow(found)]
        for found in row.breaks:
            if _may_follow(found):
                # Without a caller it stands in the outermost frame of its compile, which encloses what is compiled
                # below it.
                explained = causes and (not found.caller or any(_files(found) & files for files in causes))
                (beside if explained else alone).add(found.at)
    return frozenset(beside - alone)


def _may_follow(found: RowBreak) -> bool:
    """A wrapper starts anew only where the line is a library's, and no model's own."""
    shared = "-packages/" in found.file and "/models/" not in found.file
    return found.gb_type in _enclosing() or (shared and found.gb_type in _RESTARTED)


@lru_cache(maxsize=1)
def _enclosing() -> frozenset[str]:
    """The types by which PyTorch reports what a break inside did to the code around it."""
    return frozenset(gb_type for recipe in recipes() if recipe.kind == "consequence" for gb_type in recipe.gb_types)


def _files(found: RowBreak) -> set[str]:
    """The file of a break, and that of the model's line which led there."""
    return {found.place, found.caller.rpartition(":")[0]} - {""}


Found = tuple[int, RowBreak]
"""A break with the position of its row."""

Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)

# What differs from item to item in a reason that is otherwise the same.
_VARIABLE = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x…"),
    (re.compile(r"\b[su]\d+\b"), "s…"),
    (re.compile(r"(?<![\w.])(?:[A-Za-z]:)?(?:[\w.~-]*/)+(?=[\w.-])"), ""),
    (re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])"), "N"),
    (re.compile(r"\s+"), " "),
)
_VERDICTS = frozenset(get_args(SpeedVerdict))
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*")


def summarise(sweep: Sweep) -> SweepSummary:
    """Everything that is said of a sweep as a whole."""
    items = sweep.items
    follows = following(items)
    found = [(at, each) for at, row in enumerate(items) for each in row.breaks]
    lines = [_line(items, group, follows) for group in _grouped(found, lambda each: each[1].at).values()]
    by_configuration = _grouped(range(len(items)), lambda at: items[at].configuration)
    lines.sort(key=lambda line: (-len(line.targets), -len(line.rows), line.path, line.line, line.gb_type))
    return SweepSummary(
        total=_share(items, "", range(len(items))),
        recompiling=sum(row.recompiles > 0 for row in items),
        lines=tuple(line for line in lines if not line.follows),
        following=tuple(line for line in lines if line.follows),
        causes=_causes(items, found, follows),
        families=_families(items),
        errors=_errors(items),
        configurations=tuple(_share(items, name, rows) for name, rows in by_configuration.items()),
        matrix=_matrix(items),
        speeds=_speeds(items),
    )


def normalised(reason: str) -> str:
    """A reason without what differs from item to item: addresses, sizes, folders."""
    for pattern, instead in _VARIABLE:
        reason = pattern.sub(instead, reason)
    return reason.strip()


def _line(items: Sequence[Row], group: Sequence[Found], follows: frozenset[Place]) -> BrokenLine:
    breaks = [found for _, found in group]
    first = breaks[0]
    path, number, gb_type = first.at
    rows, targets = _members(items, (at for at, _ in group))
    reasons = _grouped(breaks, lambda found: normalised(found.reason))
    by_place = _grouped([each for each in group if each[1].caller], lambda each: each[1].caller)
    callers = [Caller(place, len({items[at].target for at, _ in found})) for place, found in by_place.items()]
    return BrokenLine(
        path=path,
        line=number,
        function=first.function,
        gb_type=gb_type,
        gb_id=_first(found.gb_id for found in breaks),
        reason=max(reasons.values(), key=len)[0].reason,
        reasons=len(reasons),
        code=_first(found.code for found in breaks),
        effects=dict(Counter(found.effect for found in breaks if found.effect).most_common()),
        callers=tuple(sorted(callers, key=lambda caller: (-caller.targets, caller.place))),
        rows=rows,
        targets=targets,
        follows=first.at in follows,
    )


def _causes(items: Sequence[Row], found: Sequence[Found], follows: frozenset[Place]) -> tuple[Cause, ...]:
    """Types of breaks, the one that hits most targets first; those that only follow from others last."""
    causes = []
    for gb_type, group in _grouped(found, lambda each: each[1].gb_type).items():
        rows, targets = _members(items, (at for at, _ in group))
        places = {each.at for _, each in group}
        gb_id = _first(each.gb_id for _, each in group)
        reasons = _reasons(items, group)
        causes.append(Cause(gb_type, gb_id, reasons, len(places), len(group), rows, targets, places <= follows))
    return tuple(sorted(causes, key=lambda cause: (cause.follows, -len(cause.targets), -cause.breaks, cause.gb_type)))


def _reasons(items: Sequence[Row], group: Sequence[Found]) -> tuple[Reason, ...]:
    alike = _grouped(group, lambda each: normalised(each[1].reason)).values()
    reasons = []
    for each in alike:
        lines, targets = {found.at for _, found in each}, {items[at].target for at, _ in each}
        reasons.append(Reason(each[0][1].reason, len(lines), len(targets)))
    return tuple(sorted(reasons, key=lambda reason: (-reason.targets, -reason.lines, reason.text)))


def _families(items: Sequence[Row]) -> tuple[Share, ...]:
    """Those with most items that are not clean first, then by name; items without a family are in none."""
    by_family = _grouped((at for at, row in enumerate(items) if row.family), lambda at: items[at].family)
    shares = [_share(items, family, rows) for family, rows in by_family.items()]
    return tuple(sorted(shares, key=lambda share: (share.counts.get("full_graph", 0) - len(share.rows), share.name)))


def _share(items: Sequence[Row], name: str, rows: Iterable[int]) -> Share:
    members = tuple(rows)
    counts = Counter(items[at].status for at in members)
    return Share(name, {status: counts[status] for status in STATUSES if counts[status]}, members)


def _matrix(items: Sequence[Row]) -> tuple[MatrixRow, ...]:
    """Targets whose status differs between configurations first; nothing where there is but one configuration."""
    names = list(dict.fromkeys(row.configuration for row in items))
    if len(names) < 2:
        return ()
    rows = []
    for target, group in _grouped(list(enumerate(items)), lambda each: each[1].target).items():
        known = {row.configuration: at for at, row in group}
        cells = tuple(known.get(name) for name in names)
        rows.append(MatrixRow(target, cells, differs=len({items[at].status for at, _ in group}) > 1))
    return tuple(sorted(rows, key=lambda row: not row.differs))


def _errors(items: Sequence[Row]) -> tuple[ErrorGroup, ...]:
    """Whatever ended without a graph, by status, exception and place; in the order of statuses, the largest first."""

    def alike(each: tuple[int, Row]) -> Hashable:
        """What must agree; the message only where no place is known."""
        row = each[1]
        return row.status, exception_in(row.error), row.error_at or normalised(row.error or "")

    failed = [(at, row) for at, row in enumerate(items) if row.status not in ("full_graph", "graph_break")]
    groups = []
    for group in _grouped(failed, alike).values():
        first = group[0][1]
        exception, message = exception_in(first.error), first.error or ""
        messages = len({normalised(row.error or "") for _, row in group})
        members = _members(items, (at for at, _ in group))
        groups.append(ErrorGroup(first.status, exception, first.error_at, message, messages, *members))
    return tuple(sorted(groups, key=lambda each: (STATUSES.index(each.status), -len(each.rows), each.message)))


def exception_in(error: str | None) -> str:
    """The name of the exception that an error begins with: "ValueError"; "" where it begins with none."""
    name, colon, _ = (error or "").partition(":")
    name = name.strip()
    return name if _EXCEPTION.fullmatch(name) and (colon or name.endswith(("Error", "Exception"))) else ""


def _speeds(items: Sequence[Row]) -> tuple[SpeedTotal, ...]:
    totals = []
    measured = [each for row in items for each in row.speeds]
    for name, speeds in _grouped(measured, lambda each: each.configuration).items():
        verdicts = Counter(each.verdict for each in speeds)
        claimed = [each.speedup for each in speeds if each.speedup is not None and each.verdict in ("faster", "slower")]
        totals.append(
            SpeedTotal(
                name, verdicts["faster"], verdicts["slower"], same=verdicts["no difference shown"],
                failed=sum(each.verdict not in _VERDICTS for each in speeds),
                median=median(claimed) if claimed else None,
            )
        )  # fmt: skip
    return tuple(totals)


def _members(items: Sequence[Row], positions: Iterable[int]) -> tuple[Rows, tuple[str, ...]]:
    rows = tuple(dict.fromkeys(positions))
    return rows, tuple(dict.fromkeys(items[at].target for at in rows))


def _grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value), None)
