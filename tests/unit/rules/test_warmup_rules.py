"""The findings of the warm-up check, and what the page and the terminal say of it, on reports written by hand."""

from __future__ import annotations

import pytest

from dynalyze.privacy import without_source
from dynalyze.render import html, terminal
from dynalyze.report import Finding, Report
from dynalyze.report.audit import Bucket, DynamicTrial, SecondStart, ShapeRun, Warmup, WarmupFunction, WarmupRecompile
from dynalyze.report.document import to_json
from dynalyze.rules.rule import judge
from sample_reports import empty_report, found_by

MODEL = "/home/ada/ranker/model.py"
RULES = ("compiles-after-warmup", "warmup-many-versions", "second-start-cold")


def size(expected: int, actual: int, cause: str = "shape") -> WarmupRecompile:
    guard = f"tensor 'x' size mismatch at index 1. expected {expected}, actual {actual}"
    return WarmupRecompile(cause, "Net.forward", MODEL, 6, "x.size()[1]", str(expected), str(actual), guard)


def counter(expected: int) -> WarmupRecompile:
    guard = f"self.calls == {expected}"
    return WarmupRecompile(
        "module_attribute", "Net.forward", MODEL, 6, "self.calls", str(expected), str(expected + 1), guard
    )


def static_lengths(*lengths: int, limit: int = 8) -> Warmup:
    """A function with static shapes: a version a length until the limit, then eager."""
    calls = []
    for number, length in enumerate(lengths, 1):
        again = [size(lengths[number - 2], length, "shape" if number <= limit else "limit")] if number > 1 else []
        run = ShapeRun({"sequence": length}, 500.0, int(number <= limit), again, later_milliseconds=1.0)
        run.versions, run.in_eager = ([number], []) if number <= limit else ([], ["Net.forward"])
        calls.append(run)
    made = min(limit, len(lengths))
    function = WarmupFunction("Net.forward", MODEL, 6, made, limit=len(lengths) > limit)
    return Warmup(calls, len(calls), functions=[function], recompile_limit=limit, dynamic="off")


def report_of(warmup: Warmup) -> Report:
    report = empty_report()
    report.warmup = warmup
    return report


def findings(warmup: Warmup) -> dict[str, Finding]:
    found = [finding for finding in judge(report_of(warmup)) if finding.rule in RULES]
    return {finding.rule: finding for finding in found}


def late(*runs: ShapeRun) -> Warmup:
    warmup = static_lengths(16, 32)
    warmup.after_warmup, warmup.warm_after = list(runs), None
    return warmup


def test_a_counter_that_compiles_again_is_an_error_that_names_it() -> None:
    runs = [ShapeRun({"sequence": length}, 250.0, 1, [counter(at)]) for at, length in enumerate((32, 16), 2)]
    found = findings(late(*runs))["compiles-after-warmup"]
    assert found.severity == "error"
    assert "`self.calls`" in found.title and "2 of 2 shapes compile after warm-up" in found.title
    assert found.location is not None and (found.location.file, found.location.line) == (MODEL, 6)
    assert found.evidence == ["sequence 32", "sequence 16"]
    assert "self.calls" in found.advice
    assert found.detail is not None and "Seen in the run" in found.detail.why
    assert found.impact is not None and found.impact.compile_seconds == 0.5


def test_two_causes_are_two_findings_and_one_without_a_guard_is_told_too() -> None:
    warmup = late(
        ShapeRun({"sequence": 16}, 1.0, 1, [counter(2)]),
        ShapeRun({"sequence": 32}, 1.0, 1, [size(16, 32)]),
        ShapeRun({"sequence": 32}, 1.0, 1),
    )
    told = found_by(report_of(warmup), "compiles-after-warmup")
    assert len(told) == 3
    assert sum("No failed guard is known" in each.title for each in told) == 1


@pytest.mark.parametrize(("lengths", "severity"), [(2, None), (4, None), (5, "warning"), (8, "warning"), (10, "error")])
def test_versions_near_and_over_the_limit(lengths: int, severity: str | None) -> None:
    found = findings(static_lengths(*range(16, 16 + lengths))).get("warmup-many-versions")
    assert (found.severity if found else None) == severity


def test_the_advice_is_what_was_tried_and_computed() -> None:
    warmup = static_lengths(16, 32, 48, 64, 80)
    warmup.dynamic_trial = DynamicTrial(1)
    warmup.dynamic_advice = "dynamic=True was tried: 1 graph instead of 5, and nothing compiled after the warm-up"
    warmup.buckets = [Bucket({"sequence": 48}, 3), Bucket({"sequence": 80}, 2)]
    warmup.bucket_padding = 0.2667
    advice = findings(warmup)["warmup-many-versions"].advice
    assert "`dynamic=True`: 1 graph instead of 5" in advice
    assert "Or pad the inputs to sequence 48 or 80 (2 versions, 27% more elements)" in advice


def test_versions_of_something_else_than_sizes_are_not_padded_away() -> None:
    warmup = static_lengths(16, 32, 48, 64, 80)
    for at, run in enumerate(warmup.calls, 1):
        run.recompiles = [counter(at)]
    advice = findings(warmup)["warmup-many-versions"].advice
    assert advice.startswith("Mend first what changes from call to call: `self.calls`")


def test_a_cold_second_start_links_to_what_bypassed_the_cache() -> None:
    warmup = static_lengths(16, 32)
    said = "Unsupported post grad custom pass"
    warmup.second_start = SecondStart(9.0, 8.5, bypasses=2, reasons=["custom_pass"], said=said)
    found = findings(warmup)["second-start-cold"]
    assert found.severity == "warning" and "2 bypasses" in found.title
    assert "uuid()" in found.advice and "cache-bypass" in found.advice
    assert found.detail is not None and "9.0 s with empty caches, and 8.5 s" in found.detail.why
    assert said in found.detail.why


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (SecondStart(9.0, 8.0, hits=1, misses=3), "differs from one process"),
        (SecondStart(9.0, 8.0), "Turn the caches on"),
    ],
)
def test_misses_and_caches_that_are_off(second: SecondStart, says: str) -> None:
    warmup = static_lengths(16, 32)
    warmup.second_start = second
    assert says in findings(warmup)["second-start-cold"].advice


def full() -> Warmup:
    warmup = static_lengths(*range(16, 26))
    warmup.after_warmup = [ShapeRun({"sequence": 17}, 9.0, 1, [counter(3)])]
    warmup.buckets, warmup.bucket_padding = [Bucket({"sequence": 25}, 10)], 0.2
    warmup.dynamic_advice = "dynamic=True was tried: 1 graph instead of 8, and nothing compiled after the warm-up"
    warmup.second_start = SecondStart(9.0, 1.0, hits=4, warm=True)
    warmup.notes = ["A note </script><b>"]
    return warmup


def test_page_and_terminal_tell_all_of_it() -> None:
    report = report_of(full())
    page, text = html.render(report), terminal.render(report, color=False, width=100)
    for shown in (page, text):
        assert "1 of 10 shapes compiled again after warm-up: sequence 17." in shown
        assert "Net.forward in eager" in shown
        assert "1 bucket would do: sequence 25" in shown
        assert "1 graph instead of 8" in shown
        assert "A second start is warm" in shown
    assert 'href="#warmup"' in page and '<section id="warmup"' in page
    assert "</script><b>" not in page
    assert 'href="#warmup"' not in html.render(empty_report())


def test_no_source_keeps_causes_and_drops_what_guards_compare() -> None:
    cleaned = without_source(report_of(full()))
    shown = to_json(cleaned) + terminal.render(cleaned)
    assert "self.calls" not in shown and "x.size()" not in shown
    assert cleaned.warmup is not None and cleaned.warmup.after_warmup[0].recompiles[0].cause == "module_attribute"
    assert "1 graph instead of 8" in cleaned.warmup.dynamic_advice
