"""The choice of what to compile, on points made by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.bench.budget import ways
from dynalyze.bench.choice import (
    Point,
    Question,
    Wish,
    best,
    compile_plan,
    frontier,
    lines_for,
    overtaken,
    points_of,
    ranges,
    rivals,
)
from dynalyze.bench.configurations import DEFAULT
from dynalyze.report.measurements import Latency, Measurement, Pair, StartUp
from dynalyze.report.plans import PlanRange
from dynalyze.words import plans as words

EAGER = Point("eager", (0.02,), (0.02,), 0.010)
BLOCKS = Point("regional", (5.0, 0.01), (1.0, 0.01), 0.008)
WHOLE = Point("default", (20.0,), (2.0,), 0.005)

seconds = st.floats(1e-6, 1e3)
firsts = st.lists(seconds, min_size=1, max_size=4).map(tuple)
some_points = st.lists(
    st.builds(Point, st.just("x"), firsts, st.none() | firsts, seconds, st.integers(1, 5)), min_size=1, max_size=6
)


def test_a_total_is_the_first_passes_as_they_were_and_steady_ones_after() -> None:
    assert BLOCKS.total(1) == 5.0
    assert BLOCKS.total(2) == pytest.approx(5.01)
    assert BLOCKS.total(102) == pytest.approx(5.01 + 100 * 0.008)
    assert BLOCKS.total(102, warm=True) == pytest.approx(1.01 + 100 * 0.008)
    assert BLOCKS.start_up() == pytest.approx(5.01)
    assert Point("x", (1.0,), None, 0.1).total(1, warm=True) == math.inf


def test_passes_in_a_time_are_those_whose_total_fits() -> None:
    assert BLOCKS.passes_in(4.9) == 0
    assert BLOCKS.passes_in(5.005) == 1
    assert BLOCKS.passes_in(5.01 + 0.8) == pytest.approx(102)


def test_versions_for_other_shapes_are_compiled_as_they_come() -> None:
    many = Point("default", (20.0,), (2.0,), 0.005, versions=3)
    assert many.total(1) == 20.0
    assert many.total(100) == pytest.approx(3 * (20.0 - 0.005) + 100 * 0.005)


@pytest.mark.parametrize(
    ("question", "chosen", "warm"),
    [
        (Question(passes=1), "eager", "eager"),
        (Question(passes=1000), "eager", "default"),  # 10, 13 and 25 s; warm 7 for the whole.
        (Question(passes=4000), "regional", "default"),  # 40, 37 and 40 s.
        (Question(passes=100_000), "default", "default"),
        (Question(seconds=1.0), "eager", "eager"),
        (Question(seconds=600.0), "default", "default"),
        (Question(start_up=10.0), "regional", "default"),
        (Question(passes=100_000, start_up=10.0), "regional", "default"),
        (Question(passes=100_000, start_up=0.001), "eager", "eager"),  # Nothing starts so soon: the soonest.
    ],
)
def test_the_best_way_for_what_is_asked(question: Question, chosen: str, warm: str) -> None:
    points = [EAGER, BLOCKS, WHOLE]
    found, other = best(points, question), best(points, question, warm=True)
    assert (found and found.name, other and other.name) == (chosen, warm)


@given(some_points, st.floats(1, 1e7))
def test_no_point_takes_less_time_than_the_choice(points: list[Point], passes: float) -> None:
    for warm in (False, True):
        chosen = best(points, Question(passes=passes), warm=warm)
        known = [point for point in points if point.again is not None or not warm]
        assert (chosen is None) == (not known)
        assert all(chosen.total(passes, warm=warm) <= point.total(passes, warm=warm) for point in known if chosen)


@given(some_points, st.floats(1e-3, 1e6))
def test_no_point_makes_more_passes_than_the_choice(points: list[Point], time: float) -> None:
    chosen = best(points, Question(seconds=time))
    assert chosen is not None
    assert all(chosen.passes_in(time) >= point.passes_in(time) * (1 - 1e-12) for point in points)


@given(some_points, st.floats(1e-3, 1e4))
def test_a_limit_on_starting_is_kept_where_any_way_keeps_it(points: list[Point], limit: float) -> None:
    chosen = best(points, Question(start_up=limit))
    assert chosen is not None
    inside = [point for point in points if point.start_up() <= limit]
    if inside:
        assert chosen.start_up() <= limit and chosen.steady == min(point.steady for point in inside)
    else:
        assert chosen.start_up() == min(point.start_up() for point in points)


@given(some_points)
def test_along_the_frontier_starts_become_longer_and_passes_shorter(points: list[Point]) -> None:
    found = frontier(points)
    for one, next_one in pairwise(found):
        assert one.start_up() <= next_one.start_up() and one.steady > next_one.steady
    for point in points:  # Each is on it, or something on it starts as soon and is as fast.
        assert any(each.start_up() <= point.start_up() and each.steady <= point.steady for each in found)


@given(some_points, st.floats(1, 1e6))
def test_ranges_say_what_is_best_for_any_number_of_passes(points: list[Point], passes: float) -> None:
    found = ranges(points)
    assert found[0][0] == 1
    whole = float(int(passes))
    told = [point for start, point in found if start <= whole][-1]
    chosen = best(points, Question(passes=whole))
    assert chosen is not None
    assert told.total(whole) == pytest.approx(chosen.total(whole), rel=1e-6)


@given(some_points)
def test_who_has_overtaken_stays_ahead(points: list[Point]) -> None:
    one, other = points[0], points[-1]
    end = overtaken(one, other)
    if end is not None:
        for passes in (math.ceil(end), 2 * math.ceil(end) + 1, 10 * math.ceil(end) + 7):
            assert other.total(passes) <= one.total(passes) * (1 + 1e-9)


def test_rivals_are_those_near_the_best() -> None:
    points = [EAGER, BLOCKS, WHOLE]
    assert [each.name for each in rivals(points, Question(passes=4000), 0.1)] == ["eager", "regional", "default"]
    assert [each.name for each in rivals(points, Question(passes=1), 0.4)] == ["eager"]
    assert [each.name for each in rivals(points, Question(start_up=10), 0.1)] == ["regional"]


def measured(name: str, ratio: float, cold: list[float], warm: list[float], **more: object) -> Measurement:
    """A way that is so many times as fast as eager, whose call takes 10 ms; its pairs ran on a machine half as fast."""
    pairs = [Pair([20.0, 20.0], [20.0 / ratio, 20.0 / ratio])]
    own = 10.0 if name == "eager" else 20.0 / ratio
    return Measurement(
        name, latency_ms=Latency(own, own, own, own, own, None, 2), samples=pairs,
        startup=StartUp(
            cold_calls_ms=cold if name != "eager" else [], warm_calls_ms=warm if name != "eager" else [],
            eager_calls_ms=[20.0, 10.0], steady_after=1,
        ), **more,
    )  # type: ignore[arg-type]  # fmt: skip


def test_points_of_other_times_are_brought_together_by_eager() -> None:
    rows = [measured("eager", 1, [], []), measured("default", 2, [20_000.0, 5.0], [2000.0, 5.0])]
    rows.append(Measurement("fullgraph", status="failed", reason="it broke"))
    eager, whole = points_of(rows, {"default": 3})
    assert (eager.name, eager.first, eager.again, eager.steady) == ("eager", (0.02,), (0.02,), 0.010)
    assert (whole.first, whole.again, whole.steady, whole.versions) == ((20.0,), (2.0,), pytest.approx(0.005), 3)


def test_a_plan_tells_the_choice_its_ranges_and_what_has_no_point() -> None:
    rows = [
        measured("eager", 1, [], []),
        measured("default", 2, [20_000.0], [2000.0], options={"backend": "inductor", "mode": "max-autotune"}),
        Measurement("fullgraph", status="failed", reason="it broke"),
    ]
    plan = compile_plan(rows, Wish(calls=1000))
    assert (plan.choice, plan.warm_choice) == ("eager", "default")
    assert [point.total for point in plan.points] == [pytest.approx(10.01), pytest.approx(24.995)]
    # 19.985 s are saved by 5 ms a call after the first.
    assert plan.ranges == [PlanRange(1, "eager"), PlanRange(3998, "default")]
    assert [(each.sooner, each.later) for each in plan.overtakes] == [("eager", "default")]
    assert [(each.configuration, each.reason) for each in plan.not_measured] == [("fullgraph", "it broke")]
    said = " ".join(words.sentences(plan))
    assert said.startswith("For 1,000 calls: compile nothing.") and "With warm caches: compile the whole" in said
    assert words.pasted(compile_plan(rows, Wish())) == "model = torch.compile(model, mode='max-autotune')"


def test_where_a_pass_makes_several_calls_a_plan_counts_calls() -> None:
    rows = [measured("eager", 1, [], [], calls=4), measured("default", 2, [20_000.0], [2000.0], calls=4)]
    plan = compile_plan(rows, Wish(calls=4000))
    assert plan.points[0].ms == 2.5
    assert plan.points[0].total == pytest.approx(10.01)
    assert plan.ranges[1].calls == 4 * 3998


def test_nothing_measured_makes_no_plan() -> None:
    plan = compile_plan([Measurement("eager", status="failed", reason="it raised")], Wish(calls=1))
    assert (plan.choice, plan.points) == ("", [])
    assert words.sentences(plan) == ["There is no plan: nothing could be measured."]


@pytest.mark.parametrize(
    ("options", "parts", "lines"),
    [
        ({"backend": "inductor"}, "", "model = torch.compile(model)"),
        ({"backend": "inductor", "dynamic": "on"}, "", "model = torch.compile(model, dynamic=True)"),
        ({"backend": "aot_eager", "fullgraph": True}, "",
         "model = torch.compile(model, fullgraph=True, backend='aot_eager')"),
        ({"backend": "inductor", "mode": "max-autotune"}, "model.body.compile()",
         "model.body.compile(mode='max-autotune')"),
    ],
)  # fmt: skip
def test_lines_to_paste(options: dict[str, object], parts: str, lines: str) -> None:
    assert lines_for(Measurement("some", options=options), parts) == lines


def test_the_ways_have_the_options_that_hold_for_all() -> None:
    names = [each.name for each in ways("cpu", DEFAULT)]
    assert names == ["layers", "regional", "default", "dynamic=on"]
    assert {"reduce-overhead", "max-autotune"} < {each.name for each in ways("cuda", DEFAULT)}
    other = ways("cuda", replace(DEFAULT, backend="aot_eager", fullgraph=True))
    assert {(each.backend, each.fullgraph, each.mode) for each in other} == {("aot_eager", True, None)}
