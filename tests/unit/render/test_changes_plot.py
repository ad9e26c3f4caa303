"""The drawing of what changed, and when."""

from __future__ import annotations

from dynalyze.render.html import render
from dynalyze.render.view.plots.changes import changes_plot
from dynalyze.render.view.plots.drawing import Label, Plot, Rect
from dynalyze.report import Compilation, Recompile, Report
from sample_reports import empty_report, line_of, rich_report

PLACE = line_of(44, 12, 33)


def told(*changes: tuple[str, str, float | None]) -> Report:
    """A report with recompiles of (source, value, start)."""
    report = empty_report()
    for number, (source, value, began) in enumerate(changes, 1):
        compile_id = f"0/{number}"
        report.compilations.append(Compilation(compile_id, 0, 0, PLACE, "compiled", {"total": 0.5}, began=began))
        report.recompiles.append(
            Recompile(f"r{number}", compile_id, "0/0", PLACE, "shape", source, "4", value, seconds=0.5)
        )
    return report


def plot_of(report: Report) -> Plot:
    plot = changes_plot(report)
    assert plot is not None
    return plot


def test_a_lane_for_what_changed_and_a_bar_for_each_compile() -> None:
    plot = plot_of(told(("x.size()[0]", "5", 1.0), ("n", "7", 2.0), ("x.size()[0]", "6", 3.0)))
    bars = [shape for shape in plot.shapes if isinstance(shape, Rect)]
    assert [bar.title for bar in bars] == ["r1, 0.50 s: 4 → 5", "r3, 0.50 s: 4 → 6", "r2, 0.50 s: 4 → 7"]
    assert bars[0].y == bars[1].y < bars[2].y
    assert bars[0].x < bars[2].x < bars[1].x
    names = [shape.text for shape in plot.shapes if isinstance(shape, Label) and shape.kind == "name"]
    assert names == ["x.size()[0]", "n"]
    assert plot.description == "x.size()[0]: 2 recompiles, 1.0 s; 5, 6; n: 1 recompile, 0.50 s; 7"


def test_nothing_is_drawn_of_unknown_times_or_of_one_alone() -> None:
    assert changes_plot(told(("x", "5", 1.0))) is None
    assert changes_plot(told(("x", "5", None), ("x", "6", None))) is None
    plot = plot_of(told(("x", "5", 1.0), ("x", "6", 2.0), ("x", "7", None)))
    assert plot.note == "2 of 3 recompiles are drawn; the list below has more."


def test_all_at_one_moment() -> None:
    report = told(("x", "5", 1.0), ("x", "6", 1.0))
    for each in report.recompiles:
        each.seconds = 0.0
    assert all(0 < bar.width < 760 for bar in plot_of(report).shapes if isinstance(bar, Rect))


def test_the_limit_is_no_compile() -> None:
    report = told(("x", "5", 1.0), ("x", "6", 2.0))
    report.recompiles[1].cause = "limit"
    assert changes_plot(report) is None


def test_hostile_values_are_inert() -> None:
    html = render(told(("<script>x", "\u202e</title>", 1.0), ("<script>x", "6", 2.0)))
    assert "<script>x" not in html
    assert "\u202e" not in html


def test_it_stands_among_the_recompiles_of_a_page() -> None:
    """Two of its three recompiles have a start; the third is the limit."""
    assert "What changed, and when" in render(rich_report())
    assert "What changed, and when" not in render(empty_report())


def test_each_bar_leads_to_its_recompile() -> None:
    report = told(("x", "5", 1.0), ("x", "6", 2.0))
    first, second = report.recompiles
    plot = changes_plot(report, {first.id: "anchor-of-it"})
    assert plot is not None
    led = {each.title.split(",")[0]: each.anchor for each in plot.shapes if isinstance(each, Rect)}
    assert led == {first.id: "anchor-of-it", second.id: ""}
