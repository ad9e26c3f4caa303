"""The compiles of a report as spans of time, forward and backward alike: what a timeline draws."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.report import PHASES, Compilation, Report


@dataclass(frozen=True)
class Span:
    """One compile on the clock of the run. `began` is None where nobody knows."""

    compilation: Compilation
    backward: bool
    began: float | None
    seconds: dict[str, float]
    exclusive: dict[str, float]
    recompiled: bool

    @property
    def nested(self) -> list[tuple[str, float]]:
        """The phases that are known, outermost first; each one is no longer than the one that holds it."""
        found: list[tuple[str, float]] = []
        for phase in PHASES:
            if phase in self.seconds:
                length = max(0.0, self.seconds[phase])
                found.append((phase, min(length, found[-1][1]) if found else length))
        return found

    @property
    def length(self) -> float | None:
        """How long it took as a whole; None where it was not recorded."""
        return self.nested[0][1] if self.nested else None


def spans(report: Report) -> list[Span]:
    """All spans in order of their start; those whose start is not known come last."""
    again = {(r.process, r.epoch, r.compile_id) for r in report.recompiles if r.cause != "limit"}
    found: list[Span] = []
    for item in report.compilations:
        recompiled = (item.process, item.epoch, item.compile_id) in again
        found.append(Span(item, False, item.began, item.seconds, item.exclusive, recompiled))
        found += [Span(item, True, each.began, each.seconds, each.exclusive, recompiled) for each in item.backward]
    return sorted(found, key=lambda span: (span.began is None, span.began or 0.0))
