"""What another torch changes: facts of two hand-built reports, and what measurements may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from comparison_reports import again, at, broken, compiled, report
from dynalyze.comparison import upgrades
from dynalyze.comparison.reports import compare
from dynalyze.comparison.types import Comparison, Difference
from dynalyze.comparison.upgrades import Change, Interpreter, Measured, Outputs, Tried, Upgrade
from dynalyze.render.upgrade_text import render_json, render_upgrade
from dynalyze.report import Graph, Kernel, Report
from dynalyze.report.caches import Caches, SettingBlock
from dynalyze.report.measurements import Interval, Speedup
from dynalyze.starts import versions
from dynalyze.starts.upgrades import _Side, _told
from dynalyze.text.errors import UsageError

OLD, NEW = {"torch": "2.13.0"}, {"torch": "2.15.0"}
IN_OLD, IN_NEW = (f"/envs/{name}/lib/python3.11/site-packages/lib/layers.py" for name in ("old", "new"))


def told(before: Report, after: Report) -> list[Change]:
    return upgrades.fact_changes(compare(before, after), before, after)


def upgraded(before: list[Report], after: list[Report], measured: Measured | None = None) -> Upgrade:
    sides = _Side("/old/bin/python", before), _Side("/new/bin/python", after)
    return _told(sides, measured or Measured(), lambda each: each, [])


def test_a_break_of_a_library_that_moved_and_is_worded_otherwise_is_the_same() -> None:
    before = report(broken(at(10, "print(h)", "f", IN_OLD), gb_id="GB0007"), environment=OLD)
    after = report(broken(at(93, "print(h)", "f", IN_NEW), gb_id="GB9193"), environment=NEW)
    assert told(before, after) == []


def test_under_one_torch_another_cause_is_another_break() -> None:
    before = report(broken(at(10, "print(h)"), gb_id="GB0007"), environment=NEW)
    after = report(broken(at(10, "print(h)"), gb_id="GB9193"), environment=NEW)
    assert [(each.kind, each.direction) for each in told(before, after)] == [("break", "worse"), ("break", "better")]


def test_what_came_and_what_went_is_told_with_its_line() -> None:
    before = report(broken(at(10, "print(h)")), broken(at(20, "h.item()"), gb_id="GB0124"), environment=OLD)
    after = report(broken(at(10, "print(h)")), broken(at(30, "h.tolist()"), gb_id="GB0124"), environment=NEW)
    came, went = told(before, after)
    assert (came.kind, came.direction, came.location) == ("break", "worse", after.graph_breaks[1].location)
    assert (went.kind, went.direction, went.location) == ("break", "better", before.graph_breaks[1].location)


def test_a_worse_effect_of_one_statement_is_told() -> None:
    before, after = report(broken(at(10)), environment=OLD), report(broken(at(10), "eager"), environment=NEW)
    assert [(each.kind, each.direction, each.before, each.after) for each in told(before, after)] == [
        ("effect", "worse", "split", "eager")
    ]


def test_an_older_torch_tells_no_columns_so_two_breaks_of_a_line_are_one() -> None:
    line = at(9, "high.item() - low.item()")

    def at_columns(*columns: int | None, **environment: str) -> Report:
        places = [replace(line, column=column) for column in columns]
        breaks = (broken(each, id=f"b{number}") for number, each in enumerate(places))
        return report(*breaks, environment=environment)

    one, two = at_columns(None, **OLD), at_columns(4, 18, **NEW)
    assert told(one, two) == told(two, one) == []
    # Both tell columns: it is one break more.
    assert [each.direction for each in told(at_columns(4, **OLD), two)] == ["worse"]


def test_a_recompile_whose_source_has_another_name_is_the_same() -> None:
    before = report(recompiles=[again("L['x'].size()[0]")], environment=OLD)
    after = report(recompiles=[again("x.size()[0]")], environment=NEW)
    assert told(before, after) == []
    after.recompiles.append(again("x.size()[0]", id="r2", compile_id="0/2"))
    (more,) = told(before, after)
    assert (more.kind, more.direction, more.before, more.after) == ("recompile", "worse", "1", "2")


def test_a_function_that_falls_back_and_one_that_comes_back() -> None:
    before = report(compilations=[compiled()], environment=OLD)
    after = report(compilations=[compiled(status="eager", reason="a skip")], environment=NEW)
    assert [(each.kind, each.direction) for each in told(before, after)] == [("compilation", "worse")]
    assert [(each.kind, each.direction) for each in told(after, before)] == [("compilation", "better")]


def test_more_kernels_name_what_is_left_to_aten_and_are_no_regression() -> None:
    graphs = [Graph("g1", "0/0")]
    one = report(compilations=[compiled()], graphs=graphs, kernels=[Kernel("g1", "cpp_fused_0", "cpp")])
    fallback = Kernel("g1", "aten.sort", "fallback", ops=["aten.sort.default"])
    two = report(compilations=[compiled()], graphs=graphs, kernels=[*one.kernels, fallback])
    (more,) = told(one, two)
    assert (more.kind, more.direction, more.is_regression) == ("kernels", "worse", False)
    assert "aten.sort.default" in more.advice


def test_only_what_both_pairs_of_runs_tell_is_told() -> None:
    plain, breaks = report(environment=OLD), report(broken(at(10)), environment=NEW)
    without = report(environment=NEW)
    assert upgraded([plain, plain], [breaks, without]).changes == []
    assert [each.kind for each in upgraded([plain, plain], [breaks, breaks]).changes] == ["break"]


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        ([2.0, 2.1], [2.9, 3.0], "worse"),
        ([2.9, 3.0], [2.0, 2.1], "better"),
        ([2.0, 2.9], [2.8, 3.0], "same"),
        ([10.0, 10.1], [11.0, 11.5], "same"),
        ([0.1, 0.1], [0.3, 0.3], "same"),
        ([], [1.0], "same"),
    ],
)
def test_compile_times_differ_only_where_all_runs_do_by_much(before: list[float], after: list[float], way: str) -> None:
    assert upgrades.compile_direction(before, after) == way


def speed(low: float, value: float, high: float, verdict: Any) -> Measured:
    return Measured(speed=Speedup(Interval(value, low, high), verdict, 0.05, 5), latency_ms=(2.0, 2.0 / value))


@pytest.mark.parametrize(
    ("measured", "kinds"),
    [
        (speed(0.95, 1.1, 1.3, "no difference shown"), []),
        (speed(1.1, 1.2, 1.3, "faster"), [("speed", "better")]),
        (speed(0.7, 0.8, 0.9, "slower"), [("speed", "worse")]),
        (Measured(memory=(400 << 20, 420 << 20)), []),
        (Measured(memory=(400 << 20, 700 << 20)), [("memory", "worse")]),
        (Measured(memory=(10 << 20, 20 << 20)), []),
        (Measured(outputs=Outputs("equal", "suspicious")), [("outputs", "worse")]),
        (Measured(outputs=Outputs("suspicious", "benign")), [("outputs", "better")]),
        (Measured(outputs=Outputs("equal", "equal", "suspicious", "suspicious")), [("outputs", "worse")]),
        (Measured(outputs=Outputs("equal", "equal", "benign", "benign")), []),
    ],
)
def test_what_is_measured_is_told_only_beyond_noise(measured: Measured, kinds: list[tuple[str, str]]) -> None:
    _, changes = upgrades.measured_changes(measured, kernels_alike=True)
    assert [(each.kind, each.direction) for each in changes] == kinds


def test_the_text_and_the_document() -> None:
    before = report(broken(at(20, "h.item()")), environment=OLD)
    after = report(broken(at(30, "h.tolist()")), environment=NEW)
    found = upgraded([before], [after], speed(0.7, 0.8, 0.9, "slower"))
    text = render_upgrade(found, color=False, width=100)
    assert text.startswith("torch 2.13.0 -> 2.15.0: 2 things worse and 1 thing better.")
    assert "New graph break: type of GB0059" in text and "model.py:30" in text and "h.tolist()" in text
    assert "worse: 1.25x slower (1.11 to 1.43)" in text
    document = json.loads(render_json(found))
    assert document["schema_version"] == 1 and document["verdict"] == text.splitlines()[0]
    assert [each["direction"] for each in document["changes"]] == ["worse", "worse", "better"]


def test_one_pair_of_processes_is_no_verdict_on_speed() -> None:
    same = report(environment=NEW)
    text = render_upgrade(upgraded([same], [same], Measured(latency_ms=(1.0, 2.0))), color=False, width=100)
    assert "not judged: only one pair" in text


def test_equal_reports_tell_nothing() -> None:
    same = report(broken(at(20)), recompiles=[again()], compilations=[compiled()], environment=NEW)
    found = upgraded([same, same], [same, same])
    assert found.changes == [] and {each.verdict for each in found.measures} == {"same"}
    assert "nothing is worse or better" in render_upgrade(found, color=False)


class Environments:
    """Stands in for environments and runs: a version from `worse_from` on is worse; `missing` cannot be installed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, worse_from: str = "", missing: str = "") -> None:
        self.worse_from = worse_from
        self.compared: list[tuple[str, str]] = []

        def environment(base: str, version: str, packages: Any) -> Path:
            if version == missing:
                raise versions.NotInstalled(f"torch {version} cannot be installed: no such version")
            return Path(version)

        monkeypatch.setattr(versions, "environment", environment)

    def compare(self, pythons: tuple[str, str]) -> tuple[Upgrade, list[Report]]:
        self.compared.append(pythons)
        worse = bool(self.worse_from) and pythons[1] >= self.worse_from
        changes = [Change("break", "worse", "a type")] if worse else []
        sides = (Interpreter(each, each) for each in pythons)
        before, after = sides
        comparison: Comparison = compare(report(), report())
        return Upgrade(before, after, [], changes, Outputs(), comparison), [report(), report()]


@pytest.mark.parametrize("first", ["2.12", "2.13", "2.14", "2.15"])
def test_the_first_version_that_is_worse_is_found(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    runs = Environments(monkeypatch, first)
    found, _ = versions.first_worse("2.11,2.12,2.13,2.14,2.15", (), "python", runs.compare, lambda line: None)
    assert found.first_worse == first and found.after.torch == first
    assert len(runs.compared) <= 3 and runs.compared[0] == ("2.11", "2.15")
    assert next(each for each in found.versions if each.version == first).worse is True


def test_where_the_last_is_not_worse_nothing_between_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Environments(monkeypatch)
    found, _ = versions.first_worse("2.11,2.13,2.15", (), "python", runs.compare, lambda line: None)
    assert found.first_worse == "" and runs.compared == [("2.11", "2.15")]
    assert Tried("2.13") in found.versions


def test_a_version_that_cannot_be_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    runs = Environments(monkeypatch, "2.13", missing="2.13")
    found, _ = versions.first_worse("2.11,2.13,2.15", (), "python", runs.compare, said.append)
    assert found.first_worse == "2.15" and said.count("torch 2.13 cannot be installed: no such version") == 1
    with pytest.raises(UsageError, match=r"torch 2\.13 cannot be installed"):
        versions.first_worse("2.11,2.13", (), "python", runs.compare, said.append)


@pytest.mark.parametrize("listed", ["2.13", "", "2.13,2.13", "2.13,latest", "2.13,--index-url", "2.13,2.14 evil"])
def test_a_list_that_is_none_is_refused(listed: str) -> None:
    with pytest.raises(UsageError, match="--versions"):
        versions.first_worse(listed, (), "python", Environments.compare, print)  # type: ignore[arg-type]


def test_settings_whose_default_changed_are_named() -> None:
    def with_settings(**values: Any) -> Report:
        return report(caches=Caches(settings=[SettingBlock("inductor_config", values)]))

    before = with_settings(combo_kernels=False, max_fusion_size=64, gone=1, _private=1)
    after = with_settings(combo_kernels=True, max_fusion_size=64, new=1, _private=2)
    assert upgrades.settings_changed(before, after) == [Difference("inductor_config.combo_kernels", "False", "True")]
