"""The steps of an audit: the target is run and observed, driven over the shapes of production, measured, and tried with
every attention. A failing step becomes a note; what the others found stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dynalyze.audit import attention_matrix, warmup
from dynalyze.bench import bisect
from dynalyze.bench.measure import add_bench, planned
from dynalyze.bench.plan import Plan
from dynalyze.capture.bench.protocol import Work
from dynalyze.capture.shapes import Dim
from dynalyze.events.log import RunLog
from dynalyze.launch.observe import Observation, Observed, observed
from dynalyze.report import Report
from dynalyze.report.audit import Warmup
from dynalyze.text.errors import UsageError

_LEAST_SECONDS = 30.0  # With less time than this no step is begun: its processes would hardly have started.
_SHARE_OF_RIGHT_ANSWERS = 0.8
"""Of the time left: what the search for wrong operations may take where answers are right; more steps may follow."""

_WARMUP = "the warm-up check"
_BENCH = "the measurement of speed, memory and answers"
_BISECT = "the search for the place of wrong answers"
_ATTENTION = "the attention matrix"


@dataclass(frozen=True)
class AuditRequest:
    """What an audit is to do. `plan` is its benchmark; without `bench` it only says how models are built and compiled.

    `shapes` are what production sends, `dims` the inputs that have these sizes. All steps together have `seconds`, by
    default the time limit of the run. Without `scripts` nothing that quotes the program is kept beside the report.
    """

    observation: Observation
    plan: Plan
    bench: bool = True
    shapes: tuple[Work, ...] = ()
    dims: tuple[Dim, ...] = ()
    attention_matrix: bool = False
    seconds: float | None = None
    scripts: bool = True


def audit(
    request: AuditRequest, progress: Callable[[str], None], keep: Callable[[RunLog], list[str]] | None = None
) -> Report:
    """The report, without findings and verdict. Raises UsageError."""
    deadline = time.monotonic() + (request.seconds or request.observation.timeout)
    wanted = (
        (request.shapes, _WARMUP, _warmup), (request.bench, _BENCH, _bench),
        (request.attention_matrix, _ATTENTION, _attention),
    )  # fmt: skip
    steps = [(name, step) for is_wanted, name, step in wanted if is_wanted]
    if request.attention_matrix and request.observation.target.asked is None:
        progress("audit, before the run: checking whether this is a transformers model whose attention can be chosen")
        attention_matrix.check_model(request.observation.target, request.plan)  # Refused before all other steps.
    progress(f"audit, step 1 of {len(steps) + 1}: the run under torch.compile")
    with observed(request.observation, keep) as seen:
        outcome = seen.report.outcome
        for number, (name, step) in enumerate(steps, 2):
            if outcome.status != "complete":
                break
            left = deadline - time.monotonic()
            if left < _LEAST_SECONDS:
                missing = ", ".join(each for each, _ in steps[number - 2 :])
                outcome.status, outcome.message = "timed_out", f"The time limit was reached before: {missing}."
                break
            progress(f"audit, step {number} of {len(steps) + 1}: {name}")
            with _as_note(seen.report, name):
                step(request, seen, left)
            if outcome.status == "complete" and time.monotonic() >= deadline:
                outcome.status, outcome.message = "timed_out", f"The time limit was reached during: {name}."
        return seen.report


@contextmanager
def _as_note(report: Report, step: str) -> Iterator[None]:
    """A failing step must not cost what the others found; a usage error ends them all."""
    try:
        yield
    except KeyboardInterrupt:
        _interrupted(report, step)
    except UsageError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())
        report.capture.notes.append(f"The audit could not finish {step}: {said or type(error).__name__}")


def _interrupted(report: Report, step: str) -> None:
    report.outcome.status, report.outcome.message = "interrupted", f"Interrupted during: {step}."


def _bench(request: AuditRequest, seen: Observed, left: float) -> None:
    """Speed, memory and answers; then the source of wrong answers, or a wrong operation hidden by right ones."""
    report, target = seen.report, request.observation.target
    until = time.monotonic() + left
    plan = add_bench(seen, target, replace(request.plan, total=min(left, request.plan.total or left)))
    verdicts = {test.verdict for test in report.accuracy} - {"not comparable"}
    if plan is not None and verdicts and report.outcome.status == "complete":
        share = 1.0 if "suspicious" in verdicts else _SHARE_OF_RIGHT_ANSWERS
        plan = replace(plan, total=max(until - time.monotonic(), 0.0) * share)
        with _as_note(report, _BISECT):
            folder = bisect.DEFAULT_FOLDER if request.scripts else None
            report.bisections = bisect.bisect_suspicious(report, target, plan, folder)


def _warmup(request: AuditRequest, seen: Observed, left: float) -> None:
    target, shapes, dims = request.observation.target, request.shapes, request.dims
    plan, source = planned(seen, target, replace(request.plan, total=left))
    found = Warmup(reason=source.reason)
    if plan is not None:
        found = warmup.check_warmup(target, replace(plan, works=shapes, dims=dims), shapes, dims)
    seen.report.warmup = found
    if found.stopped == "interrupted":
        _interrupted(seen.report, _WARMUP)


def _attention(request: AuditRequest, seen: Observed, left: float) -> None:
    plan = replace(request.plan, total=left, seconds=request.plan.seconds if request.bench else 0.0)
    found = attention_matrix.attention_matrix(request.observation.target, plan)
    seen.report.attention_matrix = found
    if found.stopped == "interrupted":
        _interrupted(seen.report, _ATTENTION)
