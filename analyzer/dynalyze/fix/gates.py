"""The gates of a change, after its calls were compared in eager and traced: the program's own backend, how much is
compiled, and the whole program. `fix` and `verify` share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace

import msgspec

from dynalyze.bench import schedule
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.schedule import Arm
from dynalyze.bench.workers import WorkerFailed, WorkerPool
from dynalyze.capture.bench.commands import CompareAnswers
from dynalyze.capture.bench.protocol import RIGHT, WorkerRequest
from dynalyze.capture.fixing.records import SourceChange
from dynalyze.fix.proof import FixState
from dynalyze.fix.whole_program import Gate
from dynalyze.launch.observe import Observation
from dynalyze.report import Report
from dynalyze.report.fixes import Evidence
from dynalyze.rules.report_queries import operators_in_graphs
from dynalyze.rules.settings import as_python
from dynalyze.text.amounts import count_of

_TRACED = "eager"
"""A backend whose answers the comparison of traced calls has had."""

_LEAST_LEFT = 0.9
"""Of the operators in the graphs of a whole run: graphs that are cut otherwise share some."""

_WRONG, _UNKNOWN = "suspicious", ""
_FAILS = "Compiled fails"


@dataclass
class GateVerdict:
    """What is `different` ("" for nothing) and what could not be checked; `after` is the whole program's report."""

    different: str = ""
    unchecked: list[str] = field(default_factory=list)
    after: Report | None = None


class Gates:
    """The gates for changes of one program; `program` is None if the target is no program."""

    def __init__(
        self, plan: Plan, pool: Callable[[], WorkerPool], program: Gate | None, before: Report,
        progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._plan = plan
        self._pool = pool
        self._program = program
        self._before = before
        self._progress = progress
        self._own = plan.first

    def judge(
        self, state: FixState, changes: list[SourceChange], changed: Observation, put: Mapping[str, str],
        evidence: Evidence, uncovered: str = "", *, calls: bool = True,
    ) -> GateVerdict:  # fmt: skip
        """Put a change through the gates, and note what they find in `evidence`. Without `calls` there are none to
        repeat.
        """
        wrong, unknown = self._under_own_backend(state, changes, evidence) if calls else ("", "")
        verdict = GateVerdict(wrong, [unknown] if unknown else [])
        if verdict.different or self._program is None:
            return verdict
        found, verdict.after = self._program.check(changed, put, uncovered)
        evidence.program = found
        verdict.unchecked += found.unchecked
        verdict.different = found.different
        if verdict.after is not None and not verdict.different:
            slack = vanished(evidence)
            verdict.different = _less_in_graphs(self._before, verdict.after, slack)
        return verdict

    @staticmethod
    def noted(own: Evidence, whole: Evidence) -> Evidence:
        """The evidence of one change with what the gates found for the whole."""
        return msgspec.structs.replace(
            own, backend=whole.backend, accuracy=whole.accuracy, program=whole.program,
            compiled_before=whole.compiled_before, compiled_after=whole.compiled_after,
        )  # fmt: skip

    def request_with(self, state: FixState, changes: list[SourceChange]) -> WorkerRequest:
        """A process with a change, which compiles as the program does."""
        settings = "\n".join(filter(None, [self._own.settings, as_python(state.settings)]))
        configuration = replace(self._own, settings=settings)
        return replace(
            self.request(), configuration=configuration, extra={"changes": [asdict(each) for each in changes]}
        )

    def request(self) -> WorkerRequest:
        """The same process without a change."""
        return worker_request(self._plan, self._plan.works[0], self._own)

    def _under_own_backend(self, state: FixState, changes: list[SourceChange], evidence: Evidence) -> tuple[str, str]:
        """What the changed calls get wrong under the program's own backend, and why that is unknown; "" for neither.
        Outputs are compared with eager and fp64, as `audit` does it.
        """
        evidence.backend = str((self._own.written or {}).get("backend") or self._own.backend)
        if evidence.backend == _TRACED:
            evidence.accuracy = "equal"
            return "", ""
        self._progress(f"comparing answers under {evidence.backend}, the program's own backend")
        verdict, reason = self._answers(self.request_with(state, changes))
        if verdict == _UNKNOWN:
            return "", f"its answers under {evidence.backend} are not known: {reason}"
        evidence.accuracy = verdict
        if verdict != _WRONG:
            return "", ""
        also = ", wrong without the change too:" if self._answers(self.request())[0] == _WRONG else ""
        return f"under {evidence.backend}{also} {reason}", ""

    def _answers(self, request: WorkerRequest) -> tuple[str, str]:
        """The verdict on the outputs of one process, and what is wrong, or why that is unknown."""
        try:
            with self._pool() as pool:
                found = schedule.extra(pool, Arm(request, None), CompareAnswers())
        except WorkerFailed as failure:
            fails = failure.kind in ("compile", "eager", "load", "died")
            return (_WRONG, f"it fails: {failure.message}") if fails else (_UNKNOWN, failure.message)
        verdict, reason = str(found["verdict"]), str(found.get("reason") or "").rstrip(".")
        if verdict in RIGHT:
            return verdict, ""
        if verdict == _WRONG or reason.startswith(_FAILS):
            return _WRONG, f"{reason[:1].lower()}{reason[1:]}" or "answers are wrong"
        return _UNKNOWN, reason or verdict


def less_compiled(evidence: Evidence) -> str:
    """Why less of the calls is compiled with a change; "" if it is not. An operator that ran in a graph, or could
    have, must not run in eager.
    """
    before, after = evidence.compiled_before, evidence.compiled_after
    if before is None or after is None:
        return ""
    if before.compiled and not after.compiled:
        return "its calls are no longer compiled"
    more = (after.operators - after.compiled) - (before.operators - before.compiled)
    return f"its calls run {count_of(more, 'more operator')} in eager" if more > 0 else ""


def vanished(evidence: Evidence) -> int:
    """How many operators the calls no longer run."""
    before, after = evidence.compiled_before, evidence.compiled_after
    return 0 if before is None or after is None else max(0, before.operators - after.operators)


def _less_in_graphs(before: Report, after: Report, slack: int) -> str:
    """Why the whole program compiles less; "" if it does not. `slack` operators are gone with their callers."""
    if before.graphs and not after.graphs:
        return "the program no longer compiles anything"
    was, now = operators_in_graphs(before), operators_in_graphs(after)
    return f"the program's graphs hold {now} operators, {was} before" if now < _LEAST_LEFT * (was - slack) else ""
