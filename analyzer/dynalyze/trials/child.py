"""What a measuring process is asked about settings: what the recorded calls compile with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynalyze.capture.bench.protocol import Command

if TYPE_CHECKING:
    from dynalyze.capture.bench.worker import MeasuringSession


@dataclass
class RecordedCompiles:
    """The folder of the events of torch, in that of the process, and the exception that ended the calls."""

    folder: str
    raised: str = ""


@dataclass
class CompileWith(Command[RecordedCompiles], do="compile_with"):
    """Compile the calls with these settings of Dynamo, with nothing compiled before. Where they are only `traced`,
    eager's kernels run the graphs; else the program's backend compiles them.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    traced: bool = True

    def carry_out(self, session: MeasuringSession) -> RecordedCompiles:
        from dynalyze.capture.fixing.prove import ChangeChecker

        if session.changes is None:
            session.changes = ChangeChecker(session.workload(), session.configuration, session.device, session.run)
        return RecordedCompiles(*session.changes.compiled_with(self.settings, traced=self.traced))
