"""The choice of what to compile, on points made by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.bench.choice import PlanRequest, Point, compile_plan, frontier, lines_for, points_of, ranges
from dynalyze.render.text import plans as words
from dynalyze.report.measurements import Latency, Measurement, Pair, StartUp
from dynalyze.report.plans import PlanRange

EAGER = Point("eager", (0.02,), 0.010)
BLOCKS = Point("regional", (5.0, 0.01), 0.008)
WHOLE = Point("default", (20.0,), 0.005)

seconds = st.floats(1e-6, 1e3)
firsts = st.lists(seconds, min_size=1, max_size=4).map(tuple)
some_points = st.lists(st.tuples(firsts, seconds), min_size=1, max_size=6).map(
    lambda each: [Point(f"way {number}", *times) for number, times in enumerate(each)]
)


def test_a_total_is_the_first_passes_as_they_were_and_steady_ones_after() -> None:
    assert BLOCKS.total(1) == 5.0
    assert BLOCKS.total(2) == pytest.approx(5.01)
    assert BLOCKS.total(102) == pytest.approx(5.01 + 100 * 0.008)
    assert BLOCKS.start_up == pytest.approx(5.01)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (PlanRequest(calls=1), "eager"),
        (PlanRequest(calls=1000), "eager"),  # 10, 13 and 25 s.
        (PlanRequest(calls=4000), "regional"),  # 40, 37 and 40 s.
        (PlanRequest(calls=100_000), "default"),
        (PlanRequest(seconds=1.0), "eager"),
        (PlanRequest(seconds=600.0), "default"),
        (PlanRequest(start_up=10.0), "regional"),
        (PlanRequest(calls=100_000, start_up=10.0), "regional"),
        (PlanRequest(calls=100_000, start_up=0.001), "eager"),  # Nothing starts so soon: the soonest.
    ],
)
def test_the_best_way_for_what_is_asked(wanted: PlanRequest, chosen: str) -> None:
    found = wanted.best([EAGER, BLOCKS, WHOLE], 1)
    assert found is not None and found.name == chosen


@given(some_points, st.floats(1, 1e7))
def test_no_point_takes_less_time_than_the_choice(points: list[Point], calls: float) -> None:
    chosen = PlanRequest(calls=calls).best(points, 1)
    assert chosen is not None and all(chosen.total(calls) <= point.total(calls) for point in points)


@given(some_points, st.floats(1e-3, 1e4))
def test_a_limit_on_starting_is_kept_where_any_way_keeps_it(points: list[Point], limit: float) -> None:
    chosen = PlanRequest(start_up=limit).best(points, 1)
    assert chosen is not None
    inside = [point for point in points if point.start_up <= limit]
    if inside:
        assert chosen.start_up <= limit and chosen.steady == min(point.steady for point in inside)
    else:
        assert chosen.start_up == min(point.start_up for point in points)


@given(some_points)
def test_along_the_frontier_starts_become_longer_and_passes_shorter(points: list[Point]) -> None:
    found = frontier(points)
    for one, next_one in pairwise(found):
        assert one.start_up <= next_one.start_up and one.steady > next_one.steady
    for point in points:  # Each is on it, or something on it starts as soon and is as fast.
        assert any(each.start_up <= point.start_up and each.steady <= point.steady for each in found)


@given(some_points, st.integers(1, 10**6))
def test_ranges_say_what_is_best_for_any_number_of_passes(points: list[Point], passes: int) -> None:
    found = ranges(points)
    assert found[0].calls == 1
    told = [each.configuration for each in found if each.calls <= passes][-1]
    named = next(point for point in points if point.name == told)
    assert named.total(passes) == pytest.approx(min(point.total(passes) for point in points), rel=1e-6)


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
    eager, whole = points_of(rows)
    assert (eager.name, eager.first, eager.steady) == ("eager", (0.02,), 0.010)
    assert (whole.first, whole.steady) == ((20.0,), pytest.approx(0.005))
    assert [point.first for point in points_of(rows, warm=True)] == [(0.02,), (2.0,)]


def test_a_plan_tells_the_choice_its_ranges_and_what_has_no_point() -> None:
    rows = [
        measured("eager", 1, [], []),
        measured("default", 2, [20_000.0], [2000.0], options={"backend": "inductor", "mode": "max-autotune"}),
        Measurement("fullgraph", status="failed", reason="it broke"),
    ]
    plan = compile_plan(rows, PlanRequest(calls=1000))
    assert (plan.choice, plan.warm_choice) == ("eager", "default")
    assert [point.total for point in plan.points] == [pytest.approx(10.01), pytest.approx(24.995)]
    # 19.985 s are saved by 5 ms a call after the first.
    assert plan.ranges == [PlanRange(1, "eager"), PlanRange(3998, "default")]
    assert [(each.configuration, each.reason) for each in plan.not_measured] == [("fullgraph", "it broke")]
    said = " ".join(words.sentences(plan))
    assert said.startswith("For 1,000 calls: compile nothing.") and "With warm caches: compile the whole" in said
    assert words.pasted(compile_plan(rows, PlanRequest())) == "model = torch.compile(model, mode='max-autotune')"


def test_where_a_pass_makes_several_calls_a_plan_counts_calls() -> None:
    rows = [measured("eager", 1, [], [], calls=4), measured("default", 2, [20_000.0], [2000.0], calls=4)]
    plan = compile_plan(rows, PlanRequest(calls=4000))
    assert plan.points[0].ms == 2.5
    assert plan.points[0].total == pytest.approx(10.01)
    assert plan.ranges[1].calls == 4 * 3998


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"backend": "inductor"}, "model = torch.compile(model)"),
        ({"backend": "inductor", "dynamic": "on"}, "model = torch.compile(model, dynamic=True)"),
        ({"backend": "aot_eager", "fullgraph": True},
         "model = torch.compile(model, fullgraph=True, backend='aot_eager')"),
        ({"region": "blocks", "mode": "max-autotune"},
         "for block in model.layers:  # each of its repeated blocks\n    block.compile(mode='max-autotune')"),
    ],
)  # fmt: skip
def test_lines_to_paste(options: dict[str, object], lines: str) -> None:
    assert lines_for(Measurement("some", options=options)) == lines


@pytest.mark.parametrize(("other", "points"), [
    (Measurement("default", reason="the time was up before it was timed"), 0),
    (Measurement("default", status="failed", reason="it broke"), 1),
])  # fmt: skip
def test_eager_is_no_choice_where_nothing_else_was_reached_in_time(other: Measurement, points: int) -> None:
    assert len(compile_plan([measured("eager", 1, [], []), other], PlanRequest()).points) == points
