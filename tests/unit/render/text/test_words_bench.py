"""The sentences about measurements: what is claimed, and what never is."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from msgspec.structs import replace

from dynalyze.render.text import bench as words_bench
from dynalyze.render.text import report as words
from dynalyze.report.measurements import (
    Accuracy,
    BreakEven,
    Interval,
    Latency,
    Measurement,
    Memory,
    Speedup,
    SpeedVerdict,
    StartUp,
    TensorAccuracy,
)
from dynalyze.text.amounts import milliseconds
from sample_measurements import eager_row, measured, measurements, speedup
from sample_reports import clean_report, measured_report

STEADY = Latency(20.0, 21.0, 22.0, 23.0, 20.1, 0.5, 50)
PLAIN = Latency(36.6, 37.0, 38.0, 39.0, 36.7, 0.6, 50)


def compiled(name: str = "default", **changes: object) -> Measurement:
    """1.83x faster; three slow calls of 12,060 ms in all before calls of 20 ms."""
    fields: dict[str, object] = {
        "latency_ms": STEADY,
        "eager_latency_ms": PLAIN,
        "speedup": speedup(1.83, 1.79, 1.88),
        "startup": StartUp(cold_calls_ms=[11_000.0, 1000.0, 60.0, 20.0], warm_calls_ms=[3020.0], steady_after=3),
        "break_even": BreakEven(639.2, 600.0, 700.0),
        "memory": Memory("rss", 1_200_000_000, eager_steady_peak=1_000_000_000),
    }
    return Measurement(name, **{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        ("invalid", "no frame was compiled", "fullgraph could not be measured: no frame was compiled"),
        ("failed", "out of memory", "fullgraph failed: out of memory"),
        ("failed", "", "fullgraph failed: the reason is not known"),
    ],
)
def test_what_is_not_valid_has_a_reason_and_no_number(status: str, reason: str, said: str) -> None:
    """Even where numbers came along."""
    item = compiled("fullgraph", status=status, reason=reason)
    assert words_bench.sentence(item, Accuracy("fullgraph", verdict="equal")) == said


# ---- what compiling costs ---------------------------------------------------------------------------------


def test_the_cost_is_what_the_first_calls_took_beyond_steady_ones() -> None:
    cost = words_bench.compile_cost(compiled())
    assert cost is not None
    assert cost.seconds == pytest.approx(12.060 - 3 * 0.020)
    warm = words_bench.compile_cost(compiled(), warm=True)
    assert warm is not None
    assert warm.seconds == pytest.approx(3.0)


def test_a_cost_that_was_not_seen_to_its_end_is_a_bound() -> None:
    item = compiled(startup=StartUp(cold_calls_ms=[11_000.0, 1000.0, 60.0], steady_after=None))
    cost = words_bench.compile_cost(item)
    assert cost is not None
    assert cost.words == "≥12 s"


@pytest.mark.parametrize("changes", [{"startup": None}, {"startup": StartUp()}, {"latency_ms": None}])
def test_a_cost_that_was_not_measured_is_not_told(changes: dict[str, object]) -> None:
    item = compiled(**changes)
    assert words_bench.compile_cost(item) is None
    assert "to compile" not in words_bench.sentence(item)


# ---- amounts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [(36.64, "36.6 ms"), (0.812, "812 µs"), (1240.0, "1.24 s"), (0.9996, "1.00 ms"), (999.96, "1.00 s"),
     (0.00012, "0.12 µs"), (123_456.0, "123 s")],
)  # fmt: skip
def test_milliseconds(value: float, said: str) -> None:
    assert milliseconds(value) == said


@pytest.mark.parametrize("ratio", [1.0, 9.996, 99.96, 12345.0, float("inf"), 5e-300])
def test_any_ratio_has_words(ratio: float) -> None:
    assert words_bench.times(ratio).endswith("x")
    for verdict in get_args(SpeedVerdict):
        speed = Speedup(Interval(ratio, ratio, ratio), verdict, 0.0, 5)
        assert words_bench.claim(compiled(speedup=speed))


# ---- groups -----------------------------------------------------------------------------------------------


def test_groups_keep_their_order_and_put_eager_first() -> None:
    items = [compiled(batch=1), eager_row(batch=1), compiled(batch=4), eager_row(batch=1, phase="decode")]
    groups = words_bench.by_workload(items)
    assert [words_bench.workload_words(each) for each in groups] == [
        "forward, batch 1", "forward, batch 4", "decode, batch 1",
    ]  # fmt: skip
    assert [item.configuration for item in next(iter(groups.values()))] == ["eager", "default"]


def test_what_failed_before_its_size_was_known_stands_with_its_workload() -> None:
    failed = Measurement("max-autotune", status="failed", reason="out of memory")
    groups = words_bench.by_workload([eager_row(batch=1), eager_row(batch=1, phase="decode"), failed])
    assert [len(items) for items in groups.values()] == [2, 1]
    other = replace(failed, batch=8)
    assert len(words_bench.by_workload([eager_row(batch=1), other])) == 2


def test_the_fastest_is_one_that_was_shown() -> None:
    unclear = compiled("dynamic=on", speedup=Speedup(Interval(3.0, 0.9, 9.0), "no difference shown", 0.1, 5))
    broken = compiled("fullgraph", speedup=speedup(9.0, 8.9, 9.1), status="invalid")
    items = [eager_row(), unclear, broken, compiled("regional", speedup=speedup(1.2, 1.1, 1.3))]
    best = words_bench.fastest(items)
    assert best is not None
    assert best.configuration == "regional"
    best = words_bench.fastest([eager_row(), broken, unclear])
    assert best is unclear
    assert words_bench.fastest([eager_row(), broken]) is broken
    assert words_bench.fastest([eager_row()]) is None


# ---- the verdict of a report ------------------------------------------------------------------------------


def test_the_first_sentence_says_whether_answers_were_compared() -> None:
    report = measured_report()
    report.accuracy, report.answers_unchecked = [], "--no-bench"
    first, *_ = words.verdict_sentences(report)
    assert first.endswith("no recompiles; answers not checked: --no-bench.")
    tensors = [TensorAccuracy("output", "output", "equal"), TensorAccuracy("w", "gradient", "equal")]
    report.accuracy = [Accuracy("default", verdict="equal", calls=3, tensors=tensors)]
    first, *_ = words.verdict_sentences(report)
    assert first.endswith("no recompiles; same answers (3 calls, outputs and gradients).")
    report.accuracy[0].draws = True
    first, *_ = words.verdict_sentences(report)
    assert first.endswith("(3 calls, outputs and gradients, with eager's random numbers).")
    report.accuracy = [Accuracy("default", verdict="not comparable", reason="Memory ran out.")]
    first, *_ = words.verdict_sentences(report)
    assert first.endswith("no recompiles; answers not checked: Memory ran out.")
    wrong = TensorAccuracy("0 after the call", "output", "suspicious", eager_value=41.0, compiled_value=1.0)
    report.accuracy = [Accuracy("default", verdict="suspicious", tensors=[wrong])]
    first, second, *_ = words.verdict_sentences(report)
    assert first == "Wrong answers: argument 0 after the call is 41 in eager and 1 in compiled."
    assert "answers" not in second


def test_notes_are_told_once_and_name_whose_they_are() -> None:
    items = [replace(item, notes=["shared"]) for item in measurements()[:2]]
    items[1].notes = ["shared", "own"]
    assert words_bench.notes(items) == ["shared", "own"], "only one was compiled"
    items.append(replace(items[1], configuration="regional", notes=["shared"]))
    assert words_bench.notes(items) == ["shared", "default: own"]


def test_what_was_not_shown_is_never_called_faster_or_slower() -> None:
    report, items = clean_report(), [measured("default", 20.0, speedup(1.8, 1.7, 1.9), batch=2**at) for at in range(7)]
    for floor in (None, 0.04):
        item = compiled(speedup=Speedup(Interval(1.5, 0.9, 1.6), "no difference shown", floor, 9))
        report.measurements = [eager_row(batch=None), item]
        assert not re.search("faster|slower|worth it", words_bench.sentence(item) + words.verdict(report))
    report.measurements = [eager_row(batch=None), compiled(status="invalid", reason="no frame")]
    assert "no frame" in words.verdict(report)
    assert len(words_bench.verdict_sentences(items, [])) == 6  # Four of seven workloads.
    assert words_bench.verdict_sentences([], [])
