"""The road of an audit: a step that fails, is stopped or has no time left costs only itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynalyze.audit import run
from dynalyze.audit.run import AuditRequest, audit
from dynalyze.bench.bisect import DEFAULT_FOLDER
from dynalyze.bench.plan import Plan, Work
from dynalyze.events.log import RunLog
from dynalyze.launch.observe import Observation, Observed
from dynalyze.launch.spec import TargetSpec
from dynalyze.report import Report
from dynalyze.report.audit import Bisection, Warmup
from dynalyze.report.measurements import Accuracy
from sample_reports import clean_report, empty_report

TARGET = TargetSpec("object", "model.py:net", path="model.py", name="net")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Report:
    """The report of the run that every test here begins with."""
    report = clean_report()
    report.outcome.seconds = 1.0

    @contextmanager
    def observed(observation: Observation, keep: Any) -> Iterator[Observed]:
        yield Observed(report, RunLog(), Path())

    monkeypatch.setattr(run, "observed", observed)
    monkeypatch.setattr("dynalyze.bench.bisect.bisect_suspicious", lambda report, target, plan, scripts: [])
    return report


def asked(timeout: float = 600.0, **changes: Any) -> AuditRequest:
    return AuditRequest(Observation(TARGET, timeout=timeout), Plan({}, timeout=timeout), **changes)


def bench(report: Report, fails: BaseException | None = None, verdict: Any = "equal") -> Any:
    def add_bench(seen: Observed, target: TargetSpec, plan: Plan) -> Plan:
        report.accuracy = [Accuracy("default", verdict=verdict)]
        if fails is not None:
            raise fails
        return plan

    return add_bench


@pytest.mark.parametrize("error", [RuntimeError("out of cheese"), OSError(28, "No space")])
def test_a_step_that_fails_is_a_note(seen: Report, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(run, "add_bench", bench(seen, error))
    report = audit(asked(), lambda line: None)
    assert report.outcome.status == "complete"
    (note,) = report.capture.notes
    assert note.startswith("The audit could not finish the measurement of speed, memory and answers: ")
    assert str(error) in note


@pytest.mark.parametrize(("stopped", "status"), [("interrupted", "interrupted"), ("", "complete")])
def test_a_step_that_was_interrupted_ends_the_audit(
    seen: Report, monkeypatch: pytest.MonkeyPatch, stopped: Any, status: str
) -> None:
    found = Warmup(reason="interrupted after 1 call" if stopped else "", stopped=stopped)
    monkeypatch.setattr(run, "add_bench", bench(seen))
    monkeypatch.setattr("dynalyze.audit.warmup.check_warmup", lambda *given: found)
    report = audit(asked(shapes=(Work(batch=1),)), lambda line: None)
    assert report.warmup is found
    assert report.outcome.status == status
    assert bool(report.accuracy) == (status == "complete")


def test_a_step_that_used_up_the_time_ends_the_audit(seen: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0.0, 1.0, 700.0))
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("dynalyze.audit.warmup.check_warmup", lambda *given: Warmup(stopped="out_of_time"))
    report = audit(asked(shapes=(Work(batch=1),)), lambda line: None)
    assert report.outcome.status == "timed_out"
    assert report.outcome.message == "The time limit was reached during: the warm-up check."


def test_ctrl_c_keeps_what_was_found_and_ends_the_audit(seen: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "add_bench", bench(seen, KeyboardInterrupt()))
    monkeypatch.setattr("dynalyze.audit.attention_matrix.check_model", lambda *given: None)
    report = audit(asked(attention_matrix=True), lambda line: None)
    assert report.outcome.status == "interrupted"
    assert report.outcome.message == "Interrupted during: the measurement of speed, memory and answers."
    assert report.accuracy and report.compilations
    assert report.attention_matrix is None


@pytest.mark.parametrize("status", ["failed", "timed_out", "interrupted", "nothing_compiled"])
def test_after_a_run_that_did_not_end_nothing_is_measured(
    seen: Report, monkeypatch: pytest.MonkeyPatch, status: Any
) -> None:
    monkeypatch.setattr(run, "add_bench", bench(seen, AssertionError("begun")))
    seen.outcome = empty_report(status).outcome
    assert audit(asked(), lambda line: None).capture.notes == []


@pytest.mark.parametrize("verdict", ["suspicious", "benign", "not comparable"])
def test_answers_are_traced_to_their_place_where_they_could_be_compared(
    seen: Report, monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    found = Bisection("default", stage="inductor")
    monkeypatch.setattr(run, "add_bench", bench(seen, verdict=verdict))
    monkeypatch.setattr("dynalyze.bench.bisect.bisect_suspicious", lambda report, target, plan, folder: [found])
    assert audit(asked(), lambda line: None).bisections == ([] if verdict == "not comparable" else [found])


def test_the_search_in_right_answers_leaves_time_for_the_rest(seen: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    monkeypatch.setattr(run, "add_bench", bench(seen, verdict="benign"))
    monkeypatch.setattr(
        "dynalyze.bench.bisect.bisect_suspicious", lambda report, target, plan, folder: given.append(plan.total) or []
    )
    audit(asked(timeout=600.0), lambda line: None)
    assert 0 < given[0] < 600.0 * 0.81


@pytest.mark.parametrize("scripts", [True, False])
def test_a_script_that_quotes_the_program_is_kept_where_that_may_be(
    seen: Report, monkeypatch: pytest.MonkeyPatch, scripts: bool
) -> None:
    given: list[Path | None] = []
    monkeypatch.setattr(run, "add_bench", bench(seen, verdict="suspicious"))
    monkeypatch.setattr(
        "dynalyze.bench.bisect.bisect_suspicious", lambda report, target, plan, folder: given.append(folder) or []
    )
    audit(replace(asked(), scripts=scripts), lambda line: None)
    assert given == [DEFAULT_FOLDER if scripts else None]


def test_a_place_that_is_not_found_costs_no_answers(seen: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object, **more: object) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr(run, "add_bench", bench(seen, verdict="suspicious"))
    monkeypatch.setattr("dynalyze.bench.bisect.bisect_suspicious", fails)
    report = audit(asked(), lambda line: None)
    assert report.capture.notes == ["The audit could not finish the search for the place of wrong answers: lost"]
    assert report.accuracy
