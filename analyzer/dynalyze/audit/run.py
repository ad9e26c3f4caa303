"""The road of an audit: the run is observed, measured, driven over the shapes of production, and tried with every
attention. What fails on the way becomes a note; what was found stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from dynalyze.bench.measure import add_bench, planned
from dynalyze.bench.plan import Plan, Work
from dynalyze.capture.shapes import Dim
from dynalyze.events.log import RunLog
from dynalyze.report import Report
from dynalyze.targets.observe import Observation, Observed, observed
from dynalyze.targets.spec import TargetSpec

_LEAST_SECONDS = 10.0
"""With less time than this no step is begun: its processes would hardly have started."""


@dataclass(frozen=True)
class Asked:
    """What an audit is to do. `plan` is its benchmark; without `bench` it only says how models are built and compiled.

    `shapes` are what production sends, `dims` the inputs that have these sizes.
    """

    observation: Observation
    plan: Plan
    bench: bool = True
    shapes: tuple[Work, ...] = ()
    dims: tuple[Dim, ...] = ()
    attention_matrix: bool = False


@dataclass(frozen=True)
class _Step:
    """One part of an audit; `doing` names it on the way, and in a note on its failure."""

    doing: str
    run: Callable[[Observed, float], None]


def audit(asked: Asked, progress: Callable[[str], None], keep: Callable[[RunLog], list[str]] | None = None) -> Report:
    """Do all of it; the findings and the verdict are still to come. `progress` gets a line before each step.

    Raises:
        UsageError: the target itself cannot be run as it was asked for; nothing was found out then.
    """
    deadline = time.monotonic() + asked.observation.timeout
    steps = _steps(asked)
    progress(f"audit, step 1 of {len(steps) + 1}: the run under torch.compile")
    with observed(asked.observation, keep) as seen:
        for number, step in enumerate(steps, 2):
            if seen.report.outcome.status != "complete":
                break
            left = deadline - time.monotonic()
            if left < _LEAST_SECONDS:
                seen.report.capture.notes.append(f"The audit left out {step.doing}: the time limit was reached.")
                continue
            progress(f"audit, step {number} of {len(steps) + 1}: {step.doing}")
            _taken(step, seen, left)
        return seen.report


def _taken(step: _Step, seen: Observed, left: float) -> None:
    """Take a step. Its failure must not cost the user what the others found."""
    report = seen.report
    try:
        step.run(seen, left)
    except KeyboardInterrupt:
        report.outcome.status, report.outcome.message = "interrupted", f"Interrupted at {step.doing}."
    except Exception as error:
        said = " ".join(str(error).split())
        report.capture.notes.append(f"The audit could not tell {step.doing}: {said or type(error).__name__}")


def _steps(asked: Asked) -> list[_Step]:
    steps = []
    if asked.bench:
        steps.append(_Step("speed, memory and answers", _Bench(asked)))
    if asked.shapes:
        steps.append(_Step("what the shapes of production compile", _Warmup(asked)))
    if asked.attention_matrix:
        steps.append(_Step("how every attention does with every dtype", _Attention(asked)))
    return steps


@dataclass(frozen=True)
class _Bench:
    """Speed, memory and answers; where answers are suspicious, the place that they come from."""

    asked: Asked

    def __call__(self, seen: Observed, left: float) -> None:
        report, target = seen.report, self.asked.observation.target
        until = time.monotonic() + left
        plan = add_bench(seen, target, self.asked.plan)
        suspicious = any(test.verdict == "suspicious" for test in report.accuracy)
        if plan is not None and suspicious and report.outcome.status == "complete":
            left = max(until - time.monotonic(), 0.0)
            _taken(_Step("where wrong answers come from", _Bisect(target, plan)), seen, left)


@dataclass(frozen=True)
class _Bisect:
    """The stage, module and operation that suspicious answers come from."""

    target: TargetSpec
    plan: Plan

    def __call__(self, seen: Observed, left: float) -> None:
        from dynalyze.bench.bisect import bisect_suspicious

        seen.report.bisections = bisect_suspicious(seen.report, self.target, replace(self.plan, total=left))


@dataclass(frozen=True)
class _Warmup:
    """Every shape of production, one call after another."""

    asked: Asked

    def __call__(self, seen: Observed, left: float) -> None:
        from dynalyze.audit.warmup import check_warmup
        from dynalyze.audit_records import Warmup

        target, shapes, dims = self.asked.observation.target, self.asked.shapes, self.asked.dims
        plan, source = planned(seen, target, self.asked.plan)
        if plan is None:
            seen.report.warmup = Warmup(reason=source.reason)
            return
        plan = replace(plan, works=shapes, dims=dims, total=left)
        seen.report.warmup = check_warmup(target, plan, shapes, dims)


@dataclass(frozen=True)
class _Attention:
    """The combinations of attention, dtype and cache."""

    asked: Asked

    def __call__(self, seen: Observed, left: float) -> None:
        from dynalyze.audit.attention_matrix import attention_matrix

        plan = replace(self.asked.plan, total=left)
        plan = plan if self.asked.bench else replace(plan, seconds=0.0)
        report = seen.report
        report.attention_matrix = attention_matrix(self.asked.observation.target, plan)
        if report.attention_matrix.stopped == "interrupted":
            report.outcome.status = "interrupted"
            report.outcome.message = "Interrupted while attentions were tried."
