"""What recompiled in calls of the warm-up check, put together by the value that changed: one series, one finding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, get_args

from dynalyze.report import Cause, Location, Recompile
from dynalyze.report.audit import ShapeRun, WarmupRecompile
from dynalyze.rules.recompile_series import Series

SIZE_CAUSES = ("shape", "symbolic", "stride")
"""Causes of recompiles that dynamic sizes or padding end."""
_MOST_SHAPES = 3
_CAUSES: tuple[Any, ...] = get_args(Cause)


@dataclass
class Changed:
    """One value that changed, and the calls in which it set off a compile, or an attempt at one."""

    lead: WarmupRecompile | None
    runs: list[ShapeRun] = field(default_factory=list)
    members: list[WarmupRecompile] = field(default_factory=list)

    @property
    def location(self) -> Location | None:
        if self.lead is None or not self.lead.file:
            return None
        return Location(self.lead.file, self.lead.line, function=self.lead.function)

    def series(self) -> Series | None:
        """As the advice on recompiles takes it; None where no guard is known."""
        if self.lead is None:
            return None
        members = [_as_recompile(number, each) for number, each in enumerate(self.members, 1)]
        values: list[str] = []
        for each in self.members:
            for value in (each.expected, each.actual):
                if value is not None and (not values or values[-1] != value):
                    values.append(value)
        return Series(members[0], members, len(members), values)


def changes(runs: Iterable[ShapeRun]) -> list[Changed]:
    """What compiled in these calls, by the first guard that failed in each; calls without one come together."""
    found: dict[tuple[object, ...], Changed] = {}
    for run in runs:
        lead = run.recompiles[0] if run.recompiles else None
        key = () if lead is None else (lead.file, lead.line, lead.source or lead.guard)
        changed = found.setdefault(key, Changed(lead))
        changed.runs.append(run)
        changed.members += [each for each in run.recompiles if lead is not None and _same(each, lead)]
    return list(found.values())


def shapes_text(runs: Iterable[ShapeRun], most: int = _MOST_SHAPES) -> str:
    """ "batch 1, sequence 128; batch 2, sequence 128 and 4 more"."""
    shapes = list(dict.fromkeys(shape_text(run) for run in runs))
    left = len(shapes) - most
    shown = "; ".join(shapes[:most])
    return f"{shown} and {left:,} more" if left > 0 else shown


def shape_text(run: ShapeRun) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in run.shape.items()) or "the only shape"


def shapes_count(number: int) -> str:
    return "1 shape" if number == 1 else f"{number:,} shapes"


def _same(one: WarmupRecompile, other: WarmupRecompile) -> bool:
    return (one.file, one.line, one.source or one.guard) == (other.file, other.line, other.source or other.guard)


def _as_recompile(number: int, found: WarmupRecompile) -> Recompile:
    cause: Cause = found.cause if found.cause in _CAUSES else "other"  # type: ignore[assignment]
    return Recompile(
        id=f"w{number}",
        compile_id="",
        previous=None,
        location=Location(found.file, found.line, function=found.function),
        cause=cause,
        source=found.source,
        expected=found.expected,
        actual=found.actual,
        guard=found.guard,
    )
