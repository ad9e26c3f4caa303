"""Histograms of shapes, and what they make torch compile."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.bench.shapes import (
    automatic_compiles,
    bucketed,
    ladder,
    marked_compiles,
    read_histogram,
    shape_plan,
    shapes_of_report,
)
from dynalyze.capture.shapes import Dim
from dynalyze.launch.shape_options import Shape
from dynalyze.render.text import plans as words
from dynalyze.report.measurements import Latency, Measurement, StartUp
from dynalyze.report.plans import SizeRange
from dynalyze.text.errors import UsageError
from sample_reports import empty_report, recompile


def shape(**sizes: int) -> Shape:
    return tuple(sizes.items())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("batch,sequence,count\n1,128,40\n8,128,2\n1,128,1\n",
         {shape(batch=1, sequence=128): 41, shape(batch=8, sequence=128): 2}),
        ("n,count\n7,40\n", {shape(n=7): 40}),
        ("batch, sequence\n1, 128\n1, 128\n", {shape(batch=1, sequence=128): 2}),
        ('shape,calls\n"(8, 128)",3\n8x64,1\n', {(("0", 8), ("1", 128)): 3, (("0", 8), ("1", 64)): 1}),
        ("x:0,count\n8,3\n", {(("x:0", 8),): 3}),
        ("12:01 GET torch.Size([8, 128])\n12:02 GET (8, 128)\nnothing here\n", {(("0", 8), ("1", 128)): 2}),
    ],
)  # fmt: skip
def test_tables_and_logs_are_read(text: str, found: dict[Shape, int]) -> None:
    assert read_histogram(text, "file") == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no shapes"),
        ("hello\nworld\n", "no shapes"),
        ("batch,count\n8,many\n", "file:2"),
        ("batch,count\n", "no s"),
    ],
)
def test_what_holds_no_shapes_is_refused_in_one_line(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_histogram(text, "file")


def test_a_report_tells_the_sizes_that_made_it_compile_again() -> None:
    report = empty_report()
    with pytest.raises(UsageError, match="without shapes"):
        shapes_of_report(report, "report.json")
    report.recompiles = [
        recompile("r1", "0/1", cause="shape", source="x.size()[0]", expected="4", actual="5"),
        recompile("r2", "0/2", cause="shape", source="x.size()[0]", expected="4", actual="9"),
    ]
    assert shapes_of_report(report, "report.json") == {(("x:0", 4),): 1, (("x:0", 5),): 1, (("x:0", 9),): 1}


@pytest.mark.parametrize(
    ("shapes", "automatic", "dynamic"),
    [
        ([shape(n=4)], 1, 1),
        ([shape(n=4), shape(n=5), shape(n=6), shape(n=7)], 2, 1),
        ([shape(n=4), shape(n=5), shape(n=1), shape(n=6)], 3, 2),
        ([shape(b=2, s=8), shape(b=2, s=9), shape(b=3, s=9), shape(b=4, s=11)], 3, 1),
        ([shape(b=2, s=8), shape(b=3, s=9), shape(b=4, s=9)], 2, 1),
    ],
)
def test_versions_are_counted_as_torch_compiles_them(shapes: list[Shape], automatic: int, dynamic: int) -> None:
    assert (automatic_compiles(shapes), marked_compiles(shapes)) == (automatic, dynamic)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("shape,count\n8x128,10\n4,2\n", r"file:3: .* line 2 \(0, 1\)"),
        ("shape,count\n\n8,1\n\n8x128,10\n", r"file:5: .* line 3 \(0\)"),
        ("GET (8, 128)\nnothing\nGET (8,)\n", r"file:3: .* line 1 \(0, 1\)"),
        ("batch,count\n8,1\n-1,1\n", r"file:3: a size or a count is out of range"),
        ("batch,count\n8,1\n99999999999999999999,1\n", r"file:3: a size or a count is out of range"),
        ("batch,count\n8,-1\n", r"file:2: a size or a count is out of range"),
        ('"a\nb', "no shapes"),
        ("batch,count\n" + "1" * 200_000 + ",1\n", r"file:2: no row of a CSV"),
    ],
)
def test_a_row_that_does_not_fit_is_named(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_histogram(text, "file")


def padded(sizes: dict[int, int], buckets: tuple[int, ...]) -> int:
    return sum(count * min(each for each in buckets if each >= size) for size, count in sizes.items())


@given(st.dictionaries(st.integers(1, 60), st.integers(1, 50), min_size=1, max_size=7))
def test_no_other_buckets_pad_less(sizes: dict[int, int]) -> None:
    for number, (total, buckets) in enumerate(ladder(sizes, len(sizes)), 1):
        others = [(*few, max(sizes)) for few in combinations(sorted(sizes)[:-1], number - 1)]
        assert total == padded(sizes, buckets) == min(padded(sizes, other) for other in others)


def test_calls_are_padded_to_few_sizes_that_come_often() -> None:
    found = bucketed({shape(n=100): 90, shape(n=90): 10, shape(n=10): 500})
    assert [(each.padded_to, each.calls) for each in found] == [({"n": 10}, 500), ({"n": 100}, 100)]
    assert [each.padding for each in found] == [0, pytest.approx(10_000 / 9900 - 1)]


def row(name: str, size: int, ms: float, first: list[float]) -> Measurement:
    latency = Latency(ms, ms, ms, ms, ms, None, 2)
    return Measurement(name, shape={"n": size}, latency_ms=latency, startup=StartUp(cold_calls_ms=first))


def test_what_padded_calls_take_is_what_was_measured() -> None:
    rows = [row("eager", 100, 4, []), row("default", 100, 2, [1000, 2]), row("default", 10, 1, [2000, 1])]
    plan = shape_plan({shape(n=100): 90, shape(n=90): 10, shape(n=10): 500}, rows)
    assert [(each.ms, each.eager_ms) for each in plan.buckets] == [(1, None), (2, 4)]
    assert plan.total == pytest.approx(0.998 + 1.999 + 100 * 0.002 + 500 * 0.001)
    assert shape_plan({shape(n=100): 90, shape(n=11): 500}, rows).total is None  # There is no time of a call with 11.


def test_a_plan_for_shapes_gives_lines_to_paste() -> None:
    histogram = {shape(batch=1, sequence=100): 1, shape(batch=8, sequence=120): 9, shape(batch=8, sequence=100): 2}
    plan = shape_plan(histogram, [], (Dim("batch", "ids", 0), Dim("sequence", "ids", 1)))
    assert (plan.calls, plan.shapes) == (12, 3)
    assert plan.varying == {"batch": SizeRange(1, 8), "sequence": SizeRange(100, 120)}
    assert plan.lines.splitlines() == [
        "torch._dynamo.mark_dynamic(ids, 0)",
        "torch._dynamo.mark_dynamic(ids, 1, min=100, max=120)",
    ]
    assert plan.sources == "L['ids']"
    assert plan.total is None  # Nothing was measured.
    assert "TORCH_COMPILE_DYNAMIC_SOURCES" in words.shape_lines(plan)
