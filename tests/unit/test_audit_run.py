"""The road of an audit: a step that fails, is stopped or has no time left costs only itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dynalyze.audit import run
from dynalyze.audit.run import Asked, audit
from dynalyze.audit_records import Bisection, Warmup
from dynalyze.bench.plan import Plan, Work
from dynalyze.errors import UsageError
from dynalyze.events.log import RunLog
from dynalyze.measurements import Accuracy
from dynalyze.report import Report
from dynalyze.targets.observe import Observation, Observed
from dynalyze.targets.spec import TargetSpec
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
    return report


def asked(timeout: float = 600.0, **changes: Any) -> Asked:
    return Asked(Observation(TARGET, timeout=timeout), Plan({}, timeout=timeout), **changes)


def bench(report: Report, fails: BaseException | None = None, verdict: Any = "equal") -> Any:
    def add_bench(seen: Observed, target: TargetSpec, plan: Plan) -> Plan:
        report.accuracy = [Accuracy("default", verdict=verdict)]
        if fails is not None:
            raise fails
        return plan

    return add_bench


def test_each_step_is_told_before_it_begins(seen: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "add_bench", bench(seen))
    monkeypatch.setattr("dynalyze.audit.warmup.check_warmup", lambda *given, **options: Warmup(reason="not today"))
    told: list[str] = []
    report = audit(asked(shapes=(Work(batch=1),)), told.append)
    assert [line.partition(":")[0] for line in told] == [f"audit, step {number} of 3" for number in (1, 2, 3)]
    assert report.warmup == Warmup(reason="not today")
    assert report.accuracy[0].verdict == "equal"


@pytest.mark.parametrize("error", [RuntimeError("out of cheese"), UsageError("no such size"), OSError(28, "No space")])
def test_a_step_that_fails_is_a_note(seen: Report, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(run, "add_bench", bench(seen, error))
    report = audit(asked(), lambda line: None)
    assert report.outcome.status == "complete"
    (note,) = report.capture.notes
    assert note.startswith("The audit could not tell speed, memory and answers: ")
    assert str(error) in note


def test_ctrl_c_keeps_what_was_found_and_ends_the_audit(seen: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "add_bench", bench(seen, KeyboardInterrupt()))
    report = audit(asked(shapes=(Work(batch=1),)), lambda line: None)
    assert report.outcome.status == "interrupted"
    assert report.accuracy and report.compilations
    assert report.warmup is None


def test_without_time_no_step_is_begun(seen: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "add_bench", bench(seen, AssertionError("begun")))
    report = audit(asked(timeout=5.0), lambda line: None)
    assert report.capture.notes == ["The audit left out speed, memory and answers: the time limit was reached."]


@pytest.mark.parametrize("status", ["failed", "timed_out", "interrupted", "nothing_compiled"])
def test_after_a_run_that_did_not_end_nothing_is_measured(
    seen: Report, monkeypatch: pytest.MonkeyPatch, status: Any
) -> None:
    monkeypatch.setattr(run, "add_bench", bench(seen, AssertionError("begun")))
    seen.outcome = empty_report(status).outcome
    assert audit(asked(), lambda line: None).capture.notes == []


def test_no_bench_measures_nothing(seen: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "add_bench", bench(seen, AssertionError("begun")))
    assert audit(asked(bench=False), lambda line: None).accuracy == []


@pytest.mark.parametrize("verdict", ["suspicious", "rounding only"])
def test_suspicious_answers_are_traced_to_their_place(
    seen: Report, monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    found = Bisection("default", stage="inductor")
    monkeypatch.setattr(run, "add_bench", bench(seen, verdict=verdict))
    monkeypatch.setattr("dynalyze.bench.bisect.bisect_suspicious", lambda report, target, plan: [found])
    assert audit(asked(), lambda line: None).bisections == ([found] if verdict == "suspicious" else [])


def test_a_place_that_is_not_found_costs_no_answers(seen: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr(run, "add_bench", bench(seen, verdict="suspicious"))
    monkeypatch.setattr("dynalyze.bench.bisect.bisect_suspicious", fails)
    report = audit(asked(), lambda line: None)
    assert report.capture.notes == ["The audit could not tell where wrong answers come from: lost"]
    assert report.accuracy
