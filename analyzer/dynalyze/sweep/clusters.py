"""Sweep -> summary: breaks clustered by line and by cause, clean shares by configuration, like errors grouped.

PyTorch also reports the loop around a broken call as a break, and a wrapper that restarts because the call below it
broke. Such a break follows from others and leads no list, unless an item has it alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from statistics import median
from typing import NamedTuple, TypeVar, get_args

from dynalyze.render.text.report import EFFECTS
from dynalyze.report.measurements import SpeedVerdict
from dynalyze.rules.recipe import recipes
from dynalyze.sweep.records import REACHED, STATUSES, TRACED, Place, Row, RowBreak, Status, Sweep

Rows = tuple[int, ...]
"""Positions in `Sweep.items`. `targets` beside them are the distinct targets of these rows: a model that breaks in four
configurations breaks once."""


class BrokenLine(NamedTuple):
    """One line of code with one type of break, over all items.

    `reason` is the most frequent, "" where it only repeats the type. `effect` is the worst. `follows`: it breaks only
    where another line of the same item does.
    """

    path: str
    line: int
    function: str
    gb_type: str
    gb_id: str | None
    reason: str
    code: str | None
    effect: str
    rows: Rows
    targets: tuple[str, ...]
    follows: bool

    @property
    def at(self) -> Place:
        return self.path, self.line, self.gb_type


class Cause(NamedTuple):
    """All breaks of one type; `breaks` counts them over all items."""

    gb_type: str
    gb_id: str | None
    lines: int
    breaks: int
    rows: Rows
    targets: tuple[str, ...]
    follows: bool


class Share(NamedTuple):
    name: str
    counts: dict[Status, int]
    rows: Rows

    @property
    def reached(self) -> int:
        return sum(self.counts.get(status, 0) for status in REACHED)

    @property
    def clean(self) -> float | None:
        """Clean items by those that reached the compiler; None where none did."""
        return self.counts.get("full_graph", 0) / self.reached if self.reached else None


class ErrorGroup(NamedTuple):
    """Items that failed alike, with the message of the first."""

    status: Status
    exception: str
    place: str
    message: str
    rows: Rows
    targets: tuple[str, ...]


class MatrixRow(NamedTuple):
    """One target over all configurations: the positions of its rows, None where there is none."""

    target: str
    cells: tuple[int | None, ...]


class SpeedTotal(NamedTuple):
    """The measured speedups of one configuration: `median` is of those that claim one, `failed` have no verdict."""

    configuration: str
    faster: int
    slower: int
    same: int
    failed: int
    median: float | None


class SweepSummary(NamedTuple):
    """`lines` are those to fix, the line that breaks most targets first; `following` break because of others."""

    total: Share
    recompiling: int
    lines: tuple[BrokenLine, ...]
    following: tuple[BrokenLine, ...]
    causes: tuple[Cause, ...]
    errors: tuple[ErrorGroup, ...]
    configurations: tuple[Share, ...]
    matrix: tuple[MatrixRow, ...]
    speeds: tuple[SpeedTotal, ...]

    @property
    def leading(self) -> tuple[BrokenLine, ...]:
        """The lines that break several targets; all of them where each breaks only one."""
        return tuple(line for line in self.lines if len(line.targets) > 1) or self.lines


Found = tuple[int, RowBreak]
"""A break with the position of its row."""

Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)

# A library's wrapper of a forward fails at its own start where dynamo meets it by itself, after a break above it.
_RESTARTED = frozenset(["Missing tp_iternext"])
_VERDICTS = frozenset(get_args(SpeedVerdict))
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*")


def following(items: Iterable[Row]) -> frozenset[Place]:
    """The places that break only beside another break of the same item, at the same or an enclosing place."""
    beside: set[Place] = set()
    alone: set[Place] = set()
    for row in items:
        causes = [_files(found) for found in row.breaks if not _may_follow(found)]
        for found in filter(_may_follow, row.breaks):
            # Without a caller it is in the outermost frame of its compile, which encloses what is compiled below.
            explained = causes and (not found.caller or any(_files(found) & files for files in causes))
            (beside if explained else alone).add(found.at)
    return frozenset(beside - alone)


def _may_follow(found: RowBreak) -> bool:
    """A wrapper restarts only where the line is a library's, not a model's own."""
    shared = "-packages/" in found.file and "/models/" not in found.file
    return found.gb_type in _enclosing() or (shared and found.gb_type in _RESTARTED)


@lru_cache(maxsize=1)
def _enclosing() -> frozenset[str]:
    """The types by which PyTorch reports the code around a break."""
    return frozenset(gb_type for recipe in recipes() if recipe.kind == "consequence" for gb_type in recipe.gb_types)


def _files(found: RowBreak) -> set[str]:
    return {found.place, found.caller.rpartition(":")[0]} - {""}


def summarise(sweep: Sweep) -> SweepSummary:
    items = sweep.items
    follows = following(items)
    found = [(at, each) for at, row in enumerate(items) for each in row.breaks]
    lines = [_line(items, group, follows) for group in _grouped(found, lambda each: each[1].at).values()]
    lines.sort(key=lambda line: (-len(line.targets), -len(line.rows), line.path, line.line, line.gb_type))
    causes = [_cause(items, group, follows) for group in _grouped(found, lambda each: each[1].gb_type).values()]
    causes.sort(key=lambda cause: (cause.follows, -len(cause.targets), -cause.breaks, cause.gb_type))
    (total,) = _shares(items, lambda row: "") or [Share("", {}, ())]
    return SweepSummary(
        total=total,
        recompiling=sum(row.recompiles > 0 for row in items),
        lines=tuple(line for line in lines if not line.follows),
        following=tuple(line for line in lines if line.follows),
        causes=tuple(causes),
        errors=_errors(items),
        configurations=tuple(_shares(items, lambda row: row.configuration)),
        matrix=_matrix(items),
        speeds=_speeds(items),
    )


def _line(items: Sequence[Row], group: Sequence[Found], follows: frozenset[Place]) -> BrokenLine:
    breaks = [found for _, found in group]
    first = breaks[0]
    effects = {found.effect for found in breaks}
    ((reason, _),) = Counter(found.reason for found in breaks).most_common(1)
    rows, targets = _members(items, group)
    return BrokenLine(
        first.place, first.line, first.function, first.gb_type, gb_id=_first(found.gb_id for found in breaks),
        reason="" if reason.strip() == first.gb_type.strip() else reason,
        code=_first(found.code for found in breaks),
        effect=next((effect for effect in EFFECTS if effect in effects), ""),
        rows=rows, targets=targets, follows=first.at in follows,
    )  # fmt: skip


def _cause(items: Sequence[Row], group: Sequence[Found], follows: frozenset[Place]) -> Cause:
    places = {found.at for _, found in group}
    gb_id = _first(found.gb_id for _, found in group)
    rows, targets = _members(items, group)
    return Cause(group[0][1].gb_type, gb_id, len(places), len(group), rows, targets, places <= follows)


def _shares(items: Sequence[Row], name: Callable[[Row], str]) -> list[Share]:
    shares = []
    for each, rows in _grouped(range(len(items)), lambda at: name(items[at])).items():
        counts = Counter(items[at].status for at in rows)
        shares.append(Share(each, {status: counts[status] for status in STATUSES if counts[status]}, tuple(rows)))
    return shares


def _matrix(items: Sequence[Row]) -> tuple[MatrixRow, ...]:
    """The targets whose status differs between configurations."""
    names = list(dict.fromkeys(row.configuration for row in items))
    rows = []
    for target, group in _grouped(enumerate(items), lambda each: each[1].target).items():
        if len({row.status for _, row in group}) > 1:
            known = {row.configuration: at for at, row in group}
            rows.append(MatrixRow(target, tuple(known.get(name) for name in names)))
    return tuple(rows)


def _errors(items: Sequence[Row]) -> tuple[ErrorGroup, ...]:
    """Whatever ended without a graph, by status, exception and place."""
    failed = [each for each in enumerate(items) if each[1].status not in TRACED]
    alike = _grouped(failed, lambda each: (each[1].status, exception_in(each[1].error), each[1].error_at))
    groups = []
    for (status, exception, _), group in alike.items():
        row = group[0][1]
        groups.append(ErrorGroup(status, exception, row.error_at, row.error or "", *_members(items, group)))
    return tuple(sorted(groups, key=lambda each: (STATUSES.index(each.status), -len(each.rows), each.message)))


def exception_in(error: str | None) -> str:
    """The exception that an error begins with: "ValueError"; "" for none."""
    name, colon, _ = (error or "").partition(":")
    name = name.strip()
    return name if _EXCEPTION.fullmatch(name) and (colon or name.endswith(("Error", "Exception"))) else ""


def _speeds(items: Sequence[Row]) -> tuple[SpeedTotal, ...]:
    totals = []
    measured = [each for row in items for each in row.speeds]
    for name, speeds in _grouped(measured, lambda each: each.configuration).items():
        count = Counter(each.verdict for each in speeds)
        claimed = [each.speedup for each in speeds if each.speedup is not None and each.verdict in ("faster", "slower")]
        failed = sum(each.verdict not in _VERDICTS for each in speeds)
        middle = median(claimed) if claimed else None
        totals.append(SpeedTotal(name, count["faster"], count["slower"], count["no difference shown"], failed, middle))
    return tuple(totals)


def _members(items: Sequence[Row], group: Iterable[tuple[int, object]]) -> tuple[Rows, tuple[str, ...]]:
    rows = tuple(dict.fromkeys(at for at, _ in group))
    return rows, tuple(dict.fromkeys(items[at].target for at in rows))


def _grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value), None)
