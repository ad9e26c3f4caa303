"""What a plan measures, and what it leaves, with workers that speak the protocol and measure nothing."""

from __future__ import annotations

import io
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dynalyze.bench import budget
from dynalyze.bench.budget import Found, Planner, names
from dynalyze.bench.choice import Wish, compile_plan
from dynalyze.bench.configurations import DEFAULT
from dynalyze.bench.plan import Plan
from dynalyze.bench.progress import Progress
from dynalyze.bench.run import run_in
from dynalyze.bench.workers import WorkerPool
from dynalyze.launch.streams import Streams
from dynalyze.report.plans import CompilePlan

FAKE = Path(__file__).with_name("fake_bench_worker.py")
PARTS = {"layers": {"regions": {"Net": ["a", "b"]}, "lines": "model.a.compile()\nmodel.b.compile()"}}


def planned(tmp_path: Path, wish: Wish, ways: str, acts: dict[str, Any], **ms: float) -> CompilePlan:
    """A plan of fake workers that behave as `acts` says; `ms` are of a pass, 2 of eager and of what is not in it."""
    acts = {"eager": {"parts": {"parts": PARTS}}, **acts}
    source = {"log": str(tmp_path / "log"), "acts": acts, "ms": ms}
    plan = Plan(source=source, configurations=names(ways, DEFAULT), seconds=0.5, pairs=4, accuracy=False, memory=False)
    progress, found = Progress(lambda text: None, 1.0, 0.1), Found()
    streams = Streams("fake", stream=io.StringIO())
    with WorkerPool(streams, 60.0, None, python=sys.executable, start=FAKE, waiting=progress.tick) as pool:
        result = run_in(pool, plan, progress, partial(Planner, wish.in_passes, {}, found))
    left_out = {each.configuration for each in found.not_measured}
    rows = [each for each in result.measurements if each.configuration not in left_out]
    made = compile_plan(rows, wish, lines=found.lines)
    made.not_measured += found.not_measured
    return made


def orders(tmp_path: Path, name: str) -> list[str]:
    """What processes of a configuration were asked."""
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    return [order for word, who, _, order in lines if word == "begin" and who == name]


def starts(cold: float, warm: float) -> dict[str, Any]:
    return {"warm": {"calls_ms": [cold, 1.0]}, "warm@2": {"calls_ms": [warm, 1.0]}}


def test_each_way_is_started_twice_and_timed_beside_eager(tmp_path: Path) -> None:
    acts = {"default": starts(20_000.0, 3000.0), "layers": starts(5000.0, 900.0)}
    plan = planned(tmp_path, Wish(calls=1_000_000), "layers,default", acts, layers=1.5, default=1.0)
    points = {point.configuration: point for point in plan.points}
    assert (points["default"].start_up, points["default"].warm_start_up) == (20.0, 3.0)
    assert (points["layers"].start_up, points["layers"].ms) == (5.0, pytest.approx(1.5))
    assert points["layers"].lines == PARTS["layers"]["lines"]
    assert (plan.choice, plan.warm_choice) == ("default", "default")
    # Of many calls the whole saves most, so it came first.
    assert [point.configuration for point in plan.points] == ["eager", "default", "layers"]
    assert all(point.frontier for point in plan.points)


def test_what_is_far_behind_gets_no_further_pair(tmp_path: Path) -> None:
    acts = {"default": starts(900.0, 90.0), "layers": starts(900.0, 90.0), "dynamic=on": starts(900.0, 90.0)}
    wish = Wish(calls=1_000_000)
    plan = planned(tmp_path, wish, "layers,default,dynamic=on", acts, layers=1.9, default=1.0, **{"dynamic=on": 1.02})
    assert plan.choice == "default"
    pairs = {name: orders(tmp_path, name).count("check") - 1 for name in ("layers", "default", "dynamic=on")}
    assert pairs == {"layers": 1, "default": 4, "dynamic=on": 4}


def test_a_way_whose_first_call_outlasts_everything_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "_GRACE", 0.2)
    plan = planned(tmp_path, Wish(calls=1), "default,layers", {"default": {"warm": "hang"}})
    assert plan.choice == "eager"
    assert [each.configuration for each in plan.not_measured] == ["default"]
    assert "cannot win" in plan.not_measured[0].reason and "eager" in plan.not_measured[0].reason
    assert "layers" in {point.configuration for point in plan.points}  # Which was quick enough.


def test_a_model_without_layers_and_blocks_has_neither_way(tmp_path: Path) -> None:
    acts = {"eager": {"parts": {"parts": {}}}}
    plan = planned(tmp_path, Wish(), "layers,regional,default", acts, default=1.0)
    assert [point.configuration for point in plan.points] == ["eager", "default"]
    assert {each.configuration for each in plan.not_measured} == {"layers", "regional"}
    assert orders(tmp_path, "layers") == orders(tmp_path, "regional") == []


def test_a_model_that_breaks_has_its_parts_as_another_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks = {"compiled_frames": 1, "graph_breaks": 2}
    acts = {
        "eager": {"parts": {"parts": {}}},
        "default": {
            "warm": {"counts": breaks}, "baseline": {"problem": ""},
            "regions": {"regions": {"Net": ["body"]}, "lines": "model.body.compile()"},
        },
    }  # fmt: skip
    monkeypatch.setattr(budget, "ways", lambda device, default: names("default", default))
    monkeypatch.setattr(sys.modules[__name__], "names", lambda texts, default: None)
    plan = planned(tmp_path, Wish(), "", acts, default=1.0, parts=0.5)
    points = {point.configuration: point for point in plan.points}
    assert points["parts"].lines == "model.body.compile()"
    assert points["parts"].ms == pytest.approx(0.5)
