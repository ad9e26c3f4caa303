"""The Chrome trace: what Perfetto asks of its structure, checked for whatever times a report holds."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dynalyze.render import chrome_trace
from dynalyze.report import PHASES, BackwardCompile, Compilation, Location, Report
from sample_reports import HOSTILE, compilation, empty_report, hostile_report, recompile

Event = dict[str, Any]


def events(report: Report) -> list[Event]:
    document = json.loads(chrome_trace.render(report))
    found = document["traceEvents"]
    assert isinstance(found, list)
    return found


def slices(report: Report) -> list[Event]:
    return [event for event in events(report) if event["ph"] == "X"]


def crossings(found: list[Event]) -> list[tuple[str, str]]:
    """Pairs of slices on one row that overlap without one lying inside the other, by Perfetto's rule."""
    rows: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in found:
        rows[event["pid"], event["tid"]].append(event)
    crossed = []
    for row in rows.values():
        open_ones: list[Event] = []
        for event in sorted(row, key=lambda each: (each["ts"], -each["dur"])):
            while open_ones and open_ones[-1]["ts"] + open_ones[-1]["dur"] <= event["ts"]:
                open_ones.pop()
            if open_ones and event["ts"] + event["dur"] > open_ones[-1]["ts"] + open_ones[-1]["dur"]:
                crossed.append((open_ones[-1]["name"], event["name"]))
            open_ones.append(event)
    return crossed


amounts = st.floats(0, 1e4, allow_nan=False)
phases = st.dictionaries(st.sampled_from((*PHASES, "backward")), amounts)
begins = st.none() | amounts
backwards = st.lists(st.builds(BackwardCompile, begins, phases), max_size=2)


@st.composite
def compiles(draw: st.DrawFn) -> Compilation:
    item = compilation(draw(st.sampled_from(["0/0", "0/1", "1/0"])), process=draw(st.integers(0, 2)))
    item.began, item.seconds, item.backward = draw(begins), draw(phases), draw(backwards)
    return item


@given(st.lists(compiles(), max_size=12))
def test_slices_nest_whatever_the_times(found: list[Compilation]) -> None:
    report = empty_report()
    report.compilations = found
    drawn = slices(report)
    assert crossings(drawn) == []
    assert all(isinstance(event["ts"], int) and isinstance(event["dur"], int) for event in drawn)
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in drawn)


def test_a_slice_says_what_it_is() -> None:
    report = empty_report()
    item = compilation("0/1", ops=12)
    item.began, item.status = 1.0, "broken"
    report.compilations, report.recompiles = [item], [recompile("r1", "0/1")]
    (found,) = slices(report)
    assert found["args"] == {
        "phase": "total",
        "compile_id": "0/1",
        "function": "Ranker.forward",
        "location": "/home/ada/work/ranker/model.py:40",
        "status": "compiled in part",
        "recompile": True,
        "epoch": 0,
        "operations": 12,
    }


def test_a_compile_that_never_ended_is_an_instant() -> None:
    report = empty_report()
    item = compilation("0/0")
    item.began, item.seconds = 1.5, {}
    report.compilations = [item]
    (found,) = [event for event in events(report) if event["ph"] != "M"]
    assert (found["ph"], found["ts"]) == ("i", 1_500_000)


def test_starts_that_nobody_knows_are_said_to_be_so() -> None:
    report = empty_report()
    report.compilations = [compilation("0/0"), compilation("1/0")]
    assert [event["ts"] for event in slices(report)] == [0, 1_000_000]
    names = [event["args"]["name"] for event in events(report) if event["name"] == "thread_name"]
    assert names == ["start not recorded: one after another"]


def test_hostile_text_stays_json() -> None:
    assert any(HOSTILE in event["name"] for event in slices(hostile_report()))
    report = empty_report()
    report.compilations = [Compilation("0/0", 0, 0, Location("/m\udce9.py", 1), "failed", {"total": 1.0})]
    chrome_trace.render(report).encode()
