"""One verdict from hand-built runs: what fails, what passes, what is not known, what is excused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from comparison_reports import again, at, broken, compiled
from comparison_reports import report as plain_report
from dynalyze.audit.policy import Policy, WaiverRule
from dynalyze.audit.verdict import conclusion, judge_policy
from dynalyze.break_cost.records import Prices
from dynalyze.privacy import showable
from dynalyze.render.text.policy import title
from dynalyze.report import Report
from dynalyze.report.audit import Bisection, PolicyCheck, PolicyVerdict, ShapeRun, Warmup
from dynalyze.report.measurements import Memory
from sample_audits import FAR_OFF, LONG_AGO, judged, measured_audit
from sample_measurements import measured, speedup
from sample_reports import empty_report, priced_report, recompile

QUIET = Policy(fail_on=(), accuracy=None)


def asking(**limits: Any) -> Policy:
    """Only these limits, each asked for by a file."""
    none = replace(QUIET, max_graph_breaks=None, max_recompiles_after_warmup=None, max_eager_frames=None)
    return replace(none, **limits, asked=frozenset(name.replace("_", "-") for name in limits))


def check(verdict: PolicyVerdict, name: str) -> PolicyCheck:
    (found,) = (each for each in verdict.checks if each.name == name)
    return found


def two_breaks() -> Report:
    first = broken(at(12), id="b1", compile_ids=["0/0"])
    second = broken(at(20, "x.item()"), id="b2", compile_ids=["0/0"])
    return judged(plain_report(first, second, compilations=[compiled("0/0")]))


def test_a_clean_run_passes_the_built_in_policy() -> None:
    verdict = judge_policy(measured_audit(), Policy())
    assert verdict.passed
    assert verdict.summary == "PASS: same answers; no graph break; no function left in eager"
    assert {each.status for each in verdict.checks} == {"passed"}
    assert verdict.advice == ""


def test_graph_breaks_fail_with_their_places_and_the_advice_of_the_first() -> None:
    report = two_breaks()
    verdict = judge_policy(report, Policy())
    assert not verdict.passed
    assert verdict.summary == "FAIL: 2 graph breaks: forward (model.py:12) and forward (model.py:20)"
    assert verdict.advice.startswith("model.py:12: ")
    assert check(verdict, "max-graph-breaks").evidence == ["b1", "b2"]
    assert judge_policy(report, Policy(max_graph_breaks=2)).passed


def test_a_finding_that_a_check_told_is_not_told_again() -> None:
    verdict = judge_policy(two_breaks(), Policy(fail_on=("warning",)))
    assert check(verdict, "fail-on").status == "failed"
    assert verdict.summary.count("model.py:12") == 1
    assert "warning" not in verdict.summary


def test_recompiles_are_counted_where_they_are_asked_for() -> None:
    report = judged(plain_report(recompiles=[again()], compilations=[compiled("0/0"), compiled("0/1")]))
    assert judge_policy(report, QUIET).passed
    verdict = judge_policy(report, asking(max_recompiles=0))
    assert check(verdict, "max-recompiles").found == "1 recompile: Net.forward (model.py:3)"
    assert judge_policy(report, asking(max_recompiles=1)).passed


@pytest.mark.parametrize("status", ["failed", "timed_out", "interrupted"])
def test_a_run_that_did_not_end_cannot_pass(status: Any) -> None:
    verdict = judge_policy(empty_report(status), QUIET)
    assert not verdict.passed
    assert check(verdict, "run").status == "failed"


def test_where_nothing_was_compiled_no_count_passes() -> None:
    report = judged(empty_report("nothing_compiled"))
    assert check(judge_policy(report, QUIET), "max-graph-breaks").status == "unknown"
    assert judge_policy(report, QUIET).passed
    assert not judge_policy(report, asking(max_graph_breaks=0)).passed
    assert judge_policy(report, Policy()).summary == "FAIL: 1 error: Nothing was compiled"


def test_what_was_not_measured_fails_only_where_it_is_asked_for() -> None:
    report = judged(plain_report(compilations=[compiled("0/0")]))
    assert judge_policy(report, Policy()).passed
    assert "answers not known (no answers were compared)" in judge_policy(report, Policy()).summary
    limits = {"min_speedup": 1.1, "max_memory_growth": 1.1, "accuracy": ("equal",), "max_recompiles_after_warmup": 0}
    for name, value in limits.items():
        verdict = judge_policy(report, asking(**{name: value}))
        key = name.replace("_", "-")
        assert check(verdict, key).status == "unknown"
        assert not verdict.passed
        assert f"{title(check(verdict, key)).lower()} not known, though required (" in verdict.summary


def test_speed_is_judged_by_the_low_end_of_its_interval() -> None:
    report = measured_audit(speed=speedup(1.3, 1.18, 1.41))
    assert judge_policy(report, asking(min_speedup=1.18)).passed
    verdict = judge_policy(report, asking(min_speedup=1.2))
    assert verdict.summary.startswith("FAIL: 1.30x as fast as eager, at least 1.18x, at most 1.41x")


def test_one_slow_configuration_fails_although_another_is_not_known() -> None:
    report = measured_audit(speed=speedup(1.3, 1.25, 1.41))
    lost = measured("default", 20.0, speedup(1.3, 1.2, 1.4), phase="train", status="failed", reason="it crashed")
    report.measurements.append(lost)
    assert check(judge_policy(report, asking(min_speedup=1.2)), "min-speedup").reason == "it crashed"
    assert check(judge_policy(report, asking(min_speedup=1.3)), "min-speedup").status == "failed"


def test_memory_and_the_time_to_compile() -> None:
    report = measured_audit()
    report.measurements[0].memory = Memory("rss", 150, ratio=1.5)
    assert judge_policy(report, asking(max_memory_growth=1.5)).passed
    assert "1.50x the memory of eager" in judge_policy(report, asking(max_memory_growth=1.4)).summary
    assert "to compile, from empty caches" in judge_policy(report, asking(max_compile_seconds=1)).summary
    report.measurements = []
    verdict = judge_policy(report, asking(max_compile_seconds=1.6))
    assert verdict.summary.startswith("FAIL: 1.7 s to compile, with the caches that were there")
    assert judge_policy(report, asking(max_compile_seconds=1.8)).passed


def test_the_price_of_a_graph_break() -> None:
    report = priced_report()
    verdict = judge_policy(report, asking(max_break_ms=1.2, max_graph_breaks=None, fail_on=()))
    assert check(verdict, "max-break-ms").status == "failed", "at least 1.3 ms of a call"
    assert "1.40 ms: …/work/ranker/model.py:44" in check(verdict, "max-break-ms").found
    assert check(judge_policy(report, asking(max_break_ms=1.35)), "max-break-ms").status == "passed"
    report.measurements[0].prices = Prices(problem="the parts do not add up")
    assert check(judge_policy(report, asking(max_break_ms=1.35)), "max-break-ms").reason == "the parts do not add up"
    report.measurements = []
    assert check(judge_policy(report, asking(max_break_ms=9.0)), "max-break-ms").status == "unknown"


def test_wrong_answers_name_the_stage_and_the_place() -> None:
    report = measured_audit("suspicious")
    assert "FAIL: bf16 output logits is wrong beyond rounding" in judge_policy(report, Policy()).summary
    report.bisections = [Bisection("default", stage="inductor", module="layers.3", op="aten.mul")]
    told = "bf16 output of aten.mul in layers.3 is wrong beyond rounding, stage: Inductor"
    assert judge_policy(report, Policy()).summary == f"FAIL: {told}"


@pytest.mark.parametrize(
    ("verdict", "allowed", "status"),
    [
        ("rounding only", ("equal", "benign", "rounding only"), "passed"),
        ("rounding only", ("equal",), "failed"),
        ("not comparable", ("equal",), "unknown"),
        ("not comparable", ("equal", "not comparable"), "passed"),
        ("suspicious", ("suspicious",), "passed"),
    ],
)
def test_which_answers_are_allowed(verdict: Any, allowed: Any, status: str) -> None:
    assert check(judge_policy(measured_audit(verdict), Policy(accuracy=allowed)), "accuracy").status == status


def warmed(late: list[int], lengths: tuple[int, ...] = (128, 512)) -> Report:
    report = judged(plain_report(compilations=[compiled("0/0")]))
    calls = [ShapeRun({"batch": 1, "sequence": length}) for length in lengths]
    after = [ShapeRun({"batch": 1, "sequence": length}, compiles=1) for length in late]
    report.warmup = Warmup(calls, None if late else 2, after)
    return report


def test_compiles_after_warm_up() -> None:
    assert "nothing compiled after warm-up" in judge_policy(warmed([]), Policy()).summary
    assert judge_policy(warmed([128, 512]), Policy()).summary == "FAIL: recompiles on every new sequence"
    told = "FAIL: 1 recompile after warm-up, for 1 of 2 shapes: batch 1, sequence 512"
    assert judge_policy(warmed([512]), Policy()).summary == told
    assert judge_policy(warmed([512]), Policy(max_recompiles_after_warmup=1)).passed


def waiving(expires: Any = FAR_OFF, **place: str) -> Policy:
    return Policy(waivers=(WaiverRule("graph-break", "so", expires, **place),))


def test_a_waived_break_does_not_count() -> None:
    verdict = judge_policy(two_breaks(), waiving(code="print(x)"))
    assert verdict.summary == "FAIL: 1 graph break: forward (model.py:20)"
    assert check(verdict, "max-graph-breaks").reason == "1 more waived or known"
    assert verdict.advice.startswith("model.py:20: ")
    (waiver,) = verdict.waivers
    assert (waiver.used, waiver.expired, len(waiver.findings)) == (1, False, 1)
    both = judge_policy(two_breaks(), waiving())
    assert both.passed
    assert check(both, "max-graph-breaks").status == "waived"


def test_an_expired_waiver_is_told_and_passes_nothing() -> None:
    verdict = judge_policy(two_breaks(), waiving(LONG_AGO))
    assert not verdict.passed
    assert verdict.summary.endswith("the waiver of graph-break expired on 2020-01-31")
    assert check(verdict, "max-graph-breaks").evidence == ["b1", "b2"]


def test_the_eager_function_of_a_waived_break_is_waived_with_it() -> None:
    eager = compiled("0/0", status="eager")
    found = broken(at(12), id="b1", effect="eager", compile_ids=["0/0"])
    report = judged(plain_report(found, compilations=[eager, compiled("1/0", function="other")]))
    assert not judge_policy(report, Policy()).passed
    assert judge_policy(report, waiving()).passed


def test_a_function_past_the_recompile_limit_is_left_in_eager() -> None:
    report = plain_report(compilations=[compiled("0/0")])
    report.recompiles = [recompile("r1", "0/8", cause="limit", location=at(12))]
    found = check(judge_policy(judged(report), Policy()), "max-eager-frames")
    assert (found.status, found.evidence) == ("failed", ["r1"])


def test_to_waive_a_conclusion_excuses_none_of_its_causes() -> None:
    found = broken(at(12), id="b1", effect="eager", compile_ids=["0/0"])
    report = judged(plain_report(found, compilations=[compiled("0/0", status="eager")]))
    assert "all-eager" in {finding.rule for finding in report.findings}
    policy = Policy(waivers=(WaiverRule("all-eager", "so", FAR_OFF),))
    verdict = judge_policy(report, policy)
    assert check(verdict, "fail-on").status == "waived"
    assert check(verdict, "max-graph-breaks").status == "failed"


@pytest.mark.parametrize("no_source", [False, True])
def test_the_verdict_does_not_depend_on_what_may_be_shown(no_source: bool) -> None:
    report = two_breaks()
    conclude = conclusion(report, waiving(code="print(x)"), None)
    shown = showable(report, conclude, no_source=no_source, redact=False, show_values=False)
    assert shown.policy is not None
    assert check(shown.policy, "max-graph-breaks").evidence == ["b2"]
    assert shown.policy.waivers[0].findings == [
        finding.fingerprint for finding in shown.findings if finding.evidence == ["b1"]
    ]


def test_a_saved_verdict_loses_names_and_code_without_source() -> None:
    report = two_breaks()
    report.policy = judge_policy(report, Policy())
    shown = showable(report, no_source=True, redact=False, show_values=False)
    assert shown.policy is not None
    assert shown.policy.summary == "FAIL: 2 graph breaks"
    assert shown.policy.advice == ""
    assert not shown.policy.passed
