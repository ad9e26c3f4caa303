"""What another torch changes: two hand-built reports, and what measurements may say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from comparison_reports import again, at, broken, report
from dynalyze.comparison import reports
from dynalyze.comparison.reports import compare
from dynalyze.comparison.types import ComparedInterpreter, OutputsCompared, Upgrade
from dynalyze.render.comparison_text import render_upgrade, render_upgrade_json
from dynalyze.report import Report
from dynalyze.report.measurements import Interval, Speedup

OLD, NEW = {"torch": "2.13.0"}, {"torch": "2.15.0"}
IN_OLD, IN_NEW = (f"/envs/{name}/lib/python3.11/site-packages/lib/layers.py" for name in ("old", "new"))


def worse(before: Report, after: Report) -> list[str]:
    return [each.kind for each in compare(before, after).regressions]


def upgraded(before: Report, after: Report, **measured: Any) -> Upgrade:
    one, other = (ComparedInterpreter("/python", each.environment["torch"]) for each in (before, after))
    return Upgrade(one, other, compare(before, after), **measured)


def test_a_break_of_a_library_that_moved_and_is_worded_otherwise_is_the_same() -> None:
    before = report(broken(at(10, "print(h)", "f", IN_OLD), gb_id="GB0007"), environment=OLD)
    after = report(broken(at(93, "print(h)", "f", IN_NEW), gb_id="GB9193"), environment=NEW)
    assert worse(before, after) == [] and not upgraded(before, after).is_worse


def test_an_older_torch_tells_no_columns_so_two_breaks_of_a_line_are_one() -> None:
    line = at(9, "high.item() - low.item()")

    def at_columns(*columns: int | None, **environment: str) -> Report:
        places = [replace(line, column=column) for column in columns]
        breaks = (broken(each, id=f"b{number}") for number, each in enumerate(places))
        return report(*breaks, environment=environment)

    one, two = at_columns(None, **OLD), at_columns(4, 18, **NEW)
    for found in (compare(one, two), compare(two, one)):
        assert found.breaks.new == found.breaks.fixed == [] and not found.regressions
    # Both tell columns: it is one break more.
    assert worse(at_columns(4, **OLD), two) == ["break"]


def test_a_recompile_whose_source_has_another_name_is_the_same() -> None:
    before = report(recompiles=[again("L['x'].size()[0]")], environment=OLD)
    after = report(recompiles=[again("x.size()[0]")], environment=NEW)
    assert worse(before, after) == []


def test_what_one_pair_of_runs_tells_alone_is_left_out() -> None:
    plain, breaks = (
        report(environment=OLD),
        report(broken(at(10)), broken(at(20, "h.item()"), id="b2"), environment=NEW),
    )
    first = compare(plain, breaks).regressions
    again = compare(plain, report(broken(at(10)), environment=NEW)).regressions
    assert len(first) == 2
    assert [each.location.line for each in reports.found_again(first, again) if each.location] == [10]


def speed(low: float, value: float, high: float, verdict: Any) -> Speedup:
    return Speedup(Interval(value, low, high), verdict, 0.05, 5)


@pytest.mark.parametrize(
    ("measured", "is_worse"),
    [
        ({"speed": speed(0.95, 1.1, 1.3, "no difference shown")}, False),
        ({"speed": speed(1.1, 1.2, 1.3, "faster")}, False),
        ({"speed": speed(0.7, 0.8, 0.9, "slower")}, True),
        ({"outputs": OutputsCompared("equal", "suspicious")}, True),
        ({"outputs": OutputsCompared("suspicious", "benign")}, False),
        ({"outputs": OutputsCompared("suspicious", "suspicious")}, False),
        ({"outputs": OutputsCompared("equal", "equal", "suspicious", "suspicious")}, True),
        ({"outputs": OutputsCompared("equal", "equal", "equal", "suspicious")}, True),
        ({"outputs": OutputsCompared("equal", "equal", "benign", "benign")}, False),
    ],
)
def test_what_is_measured_is_worse_only_beyond_noise(measured: dict[str, Any], is_worse: bool) -> None:
    same = report(broken(at(20)), environment=NEW)
    assert upgraded(same, same, **measured).is_worse is is_worse


def test_the_text_and_the_document() -> None:
    before = report(broken(at(20, "h.item()")), environment=OLD)
    after = report(broken(at(30, "h.tolist()")), environment=NEW)
    found = upgraded(before, after, speed=speed(0.7, 0.8, 0.9, "slower"), latency_ms=(2.0, 2.5))
    text = render_upgrade(found, color=False, width=100)
    assert text.startswith("torch 2.13.0 -> 2.15.0: 1 regression and slower calls.")
    assert "model.py:30" in text and "h.tolist()" in text and "1.25x slower (1.11 to 1.43)" in text
    document = json.loads(render_upgrade_json(found))
    assert document["schema_version"] == 2 and document["verdict"] == text.splitlines()[0] and document["worse"]
    assert [each["kind"] for each in document["comparison"]["regressions"]] == ["break"]
