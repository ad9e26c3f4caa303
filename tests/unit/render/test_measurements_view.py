"""Measurements on the page: drawings that show what was measured, and tables that say the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.render.html import render
from dynalyze.render.view.accuracy import accuracy_view
from dynalyze.render.view.links import Anchors
from dynalyze.render.view.measurements import MAX_ROWS, measured_metrics
from dynalyze.render.view.plots.drawing import Label, Path, Plot, Scale, evenly
from dynalyze.render.view.plots.strips import strip_plot
from dynalyze.report import Report
from dynalyze.report.measurements import Pair
from html_tree import Tree
from sample_measurements import eager_row, measured, pairs_of, speedup
from sample_reports import benched_report, empty_report, measured_report


def text_of(report: Report) -> str:
    return Tree(render(report)).text()


def dots(shape: Path) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", shape.d)]


def paths(plot: Plot, kind: str) -> list[Path]:
    return [shape for shape in plot.shapes if isinstance(shape, Path) and shape.kind == kind]


def labels(plot: Plot) -> list[str]:
    return [shape.text for shape in plot.shapes if isinstance(shape, Label)]


# ---- scales -----------------------------------------------------------------------------------------------

VALUES = st.lists(st.floats(min_value=1e-9, max_value=1e12), min_size=1, max_size=30)


@given(VALUES)
def test_every_value_has_a_place_and_the_order_stays(values: list[float]) -> None:
    scale = Scale.over(values, 100.0, 500.0)
    places = [scale.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(100.0 <= place <= 500.0 for place in places)
    ticks = scale.ticks(6)
    assert len(ticks) <= 8
    room = (scale.high - scale.low) * 1e-6
    assert all(scale.low - room <= tick <= scale.high + room for tick in ticks)


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=200), st.integers(min_value=1, max_value=60))
def test_thinning_keeps_the_extremes(values: list[float], most: int) -> None:
    kept = evenly(values, most)
    assert len(kept) == min(len(values), most)
    if most > 1 and values:
        assert (kept[0], kept[-1]) == (min(values), max(values))


# ---- strips -----------------------------------------------------------------------------------------------


def test_every_sample_is_a_dot_in_the_lane_of_its_process() -> None:
    item = measured("default", 20.0, speedup(1.8, 1.7, 1.9), samples=[Pair([30.0, 40.0], [10.0]), Pair([35.0], [12.0])])
    plot = strip_plot("p", [item])
    assert plot is not None
    (eager,), (compiled,) = paths(plot, "dots eager"), paths(plot, "dots compiled")
    assert [len(dots(strip)) for strip in (eager, compiled)] == [3, 2]
    assert len({y for _, y in dots(eager)}) == 2
    assert max(x for x, _ in dots(compiled)) < min(x for x, _ in dots(eager))
    assert "All 5 samples are drawn." in plot.note


def test_the_median_stands_where_its_value_is() -> None:
    item = measured("default", 20.0, speedup(1.8, 1.7, 1.9), samples=[Pair([10.0, 20.0, 30.0], [10.0, 20.0, 30.0])])
    plot = strip_plot("p", [item])
    assert plot is not None
    middle = sorted(dots(paths(plot, "dots eager")[0]))[1][0]
    assert {float(re.match(r"M([\d.]+)", path.d)[1]) for path in paths(plot, "median")} == {middle}  # type: ignore[index]
    assert labels(plot).count("20.0 ms") == 2


def test_the_pairs_of_eager_are_the_control() -> None:
    plot = strip_plot("p", [eager_row(samples=pairs_of(36.0, 36.0))])
    assert plot is not None
    assert "eager, second proce…" in labels(plot)
    assert paths(plot, "dots compiled") == []


@pytest.mark.parametrize("status", ["invalid", "failed"])
def test_what_is_not_valid_is_not_drawn(status: str) -> None:
    item = measured("default", 20.0, speedup(1.8, 1.7, 1.9), status=status)
    assert strip_plot("p", [item]) is None


# ---- the section ------------------------------------------------------------------------------------------


def test_a_bench_shows_nothing_that_was_not_listened_for() -> None:
    tree = Tree(render(benched_report()))
    ids = tree.values("id")
    assert {"verdict", "measurements", "accuracy", "environment"} <= set(ids)
    assert not {"fixes", "breaks", "recompiles", "graphs", "compilations", "files", "checks"} & set(ids)
    assert "no graph breaks" not in tree.text().lower()


def test_every_drawing_has_a_title_and_a_description() -> None:
    tree = Tree(render(measured_report()))
    drawings = [attributes for tag, attributes in tree.elements if tag == "svg" and attributes.get("role") == "img"]
    ids = set(tree.values("id"))
    assert drawings
    assert all({each["aria-labelledby"], each["aria-describedby"]} <= ids for each in drawings)
    assert "default: median 20" in " ".join(tree.texts["desc"])


def test_the_head_of_the_page_has_the_best_configuration() -> None:
    known = {metric.label: metric.value for metric in measured_metrics(measured_report())}
    assert known["speedup"] == "1.83x"
    assert (known["to compile, cold"], known["calls until it pays"], known["memory"]) == ("12 s", "640", "+200 MB")
    medians = {"eager, median", "default, median"}
    assert set(known) == {*medians, "speedup", "to compile, cold", "calls until it pays", "memory"}


def test_a_speed_up_that_was_not_shown_is_no_metric() -> None:
    report = empty_report()
    report.measurements = [eager_row(), measured("default", 36.0, speedup(1.0, 0.97, 1.03))]
    assert "speedup" not in {metric.label for metric in measured_metrics(report)}
    report.measurements[1].status = "invalid"
    assert measured_metrics(report) == []


def test_many_measurements_are_cut_and_it_says_so() -> None:
    report = benched_report()
    report.measurements = [eager_row(batch=at) for at in range(MAX_ROWS + 3)]
    assert "3 measurements omitted here" in text_of(report)


def test_a_large_benchmark_makes_a_small_section() -> None:
    report = empty_report()
    report.command = ["bench", "m.py"]
    pairs = pairs_of(36.0, 20.0, 10, 500)
    report.measurements = [
        measured(f"b{at % 8}", 20.0, speedup(1.8, 1.7, 1.9), samples=pairs, batch=at // 8) for at in range(40)
    ]
    page = re.sub(r'<script type="application/gzip.*?</script>', "", render(report), flags=re.DOTALL)
    assert len(page) < 900_000


# ---- answers ----------------------------------------------------------------------------------------------


def test_answers_are_told_worst_first_in_plain_words() -> None:
    rows = accuracy_view(measured_report(), Anchors()).items
    assert [row.verdict for row in rows] == [
        "Suspicious answers", "Answers not compared", "Answers that differ by rounding only",
        "Answers about as exact as those of eager", "Same answers",
    ]  # fmt: skip
    assert [each.name for each in rows[0].tensors.items] == ["logits", "hidden", "layers.0.weight"]
    assert rows[0].tensors.omitted == 0
    assert rows[0].unlisted == "4 more tensors"
    assert rows[0].notes == ["The largest logit is another one in 3% of the rows."]
    assert rows[1].notes == ["Eager is not deterministic."]
