"""What is asked of a worker that checks changes. `Baseline` comes first: it makes the checker of the process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynalyze.capture.bench.protocol import Command
from dynalyze.capture.fixing.records import BaselineResult, CheckRequest, CheckResult
from dynalyze.capture.regions import RegionalCompile

if TYPE_CHECKING:
    from dynalyze.capture.bench.worker import MeasuringSession


@dataclass
class Baseline(Command[BaselineResult], do="baseline"):
    """The code as it is, before changes are verified."""

    def carry_out(self, session: MeasuringSession) -> BaselineResult:
        from dynalyze.capture.fixing.prove import ChangeChecker

        session.changes = ChangeChecker(session.workload(), session.configuration, session.device, session.run)
        found: BaselineResult = session.changes.baseline()
        return found


@dataclass
class SeenValues:
    """By file and line what expressions were, in fields of fix/sites.py `Value`."""

    places: list[tuple[str, int, dict[str, dict[str, Any]]]]


@dataclass
class ReadValues(Command[SeenValues], do="values"):
    """What expressions of some lines were when these ran."""

    places: list[tuple[str, int, list[str]]]

    def carry_out(self, session: MeasuringSession) -> SeenValues:
        found = session.changes.values({(file, line): texts for file, line, texts in self.places})
        return SeenValues([(*place, known) for place, known in found.items()])


@dataclass
class CheckChange(Command[CheckResult], do="change"):
    """A change, held to the code as it is; `request` has the fields of `CheckRequest`."""

    request: dict[str, Any]

    def carry_out(self, session: MeasuringSession) -> CheckResult:
        found: CheckResult = session.changes.check(CheckRequest.of(self.request))
        return found


@dataclass
class FindRegions(Command[RegionalCompile], do="regions"):
    """What can be compiled in the place of a model that breaks, with a change."""

    request: dict[str, Any]

    def carry_out(self, session: MeasuringSession) -> RegionalCompile:
        found: RegionalCompile = session.changes.regions(CheckRequest.of(self.request))
        return found
