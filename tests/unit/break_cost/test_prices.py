"""From stamped passes to prices, on answers written by hand; the compiles are those of events written by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dynalyze.break_cost.attribution import CompiledRecord, advise, guards_are_dear
from dynalyze.break_cost.child import StampedPasses
from dynalyze.break_cost.records import CallPart, GuardGroup, GuardPrice, Prices
from dynalyze.break_cost.run import EXTRA
from dynalyze.facts.stacks import Places
from dynalyze.report import Location
from dynalyze.report.measurements import Interval
from records import MODEL, PRINT, TORCH, broke, end, frame, run_of, start
from sample_break_cost import prices
from sample_measurements import measured, speedup
from sample_reports import rich_report

BROKEN = frame(14)
RESUMED = frame(14, "torch_dynamo_resume_in_forward_at_14")


def record() -> CompiledRecord:
    """forward breaks at line 14; its rest is compiled as 1/0; helper (0 graphs) was left in eager by a break at 41."""
    events = (
        start("0/0", frame(10)), broke([BROKEN], PRINT), end("0/0", duration_us=500_000),
        start("1/0", RESUMED), end("1/0", duration_us=900_000),
        start("2/0", frame(40, "helper")), broke([frame(41, "helper")], PRINT, id="2/0"),
        end("2/0", has_guarded_code=False),
    )  # fmt: skip
    return CompiledRecord(run_of(*events), TORCH)


def segment(kind: str, ms: list[float], compile_id: str = "", **more: Any) -> dict[str, Any]:
    known = {"function": None, "opened_by": "", "unguarded_ms": []}
    return {**known, "kind": kind, "compile_id": compile_id, "ms": ms, **more}


def answer(*segments: dict[str, Any], plain: list[float] | None = None, **more: Any) -> StampedPasses:
    stamped = [sum(each) for each in zip(*(part["ms"] for part in segments), strict=True)]
    known = {"plain_ms": plain or stamped, "calls": 1, "problem": "", "hits": {"0/0": 1}, "guards": {}}
    return msgspec.convert({"segments": list(segments), "stamped_ms": stamped, **known, **more}, StampedPasses)


def always(ms: float) -> list[float]:
    return [ms] * 8


CALL = (
    segment("entry", always(0.3), "0/0", unguarded_ms=always(0.1)),
    segment("graph", always(1.0), "0/0"),
    segment("break", always(2.0), "0/0"),
    segment("resume", always(0.25), "1/0", opened_by="0/0"),
    segment("graph", always(0.5), "1/0"),
    segment("outside", always(0.05)),
)


def test_each_part_of_a_call_has_its_owner_and_they_add_up_to_it() -> None:
    found = record().prices(answer(*CALL))
    assert [(part.kind, pytest.approx(part.ms)) for part in found.parts] == [
        ("guards", 0.2), ("entry", 0.1), ("graph", 1.0), ("break", 2.0), ("resume", 0.25), ("graph", 0.5),
        ("outside", 0.05),
    ]  # fmt: skip
    assert found.call_ms is not None
    assert sum(part.ms for part in found.parts) == pytest.approx(found.call_ms.value)


def test_a_break_costs_its_gap_and_the_way_back() -> None:
    (found,) = record().prices(answer(*CALL)).breaks
    assert (found.place.line, found.gap_ms, found.resume_ms) == (14, pytest.approx(2.0), pytest.approx(0.25))
    assert found.ms.value == pytest.approx(2.25)
    assert found.share == pytest.approx(2.25 / 4.1)


def test_what_a_function_in_eager_takes_belongs_to_the_break_that_left_it_there() -> None:
    helper = segment("break", always(1.5), function=[MODEL, "helper", 40], opened_by="0/0")
    found = record().prices(answer(*CALL, helper))
    assert {each.place.line: pytest.approx(each.gap_ms) for each in found.breaks} == {14: 2.0, 41: 1.5}


def test_eager_code_that_no_break_left_there_is_nobodys() -> None:
    found = record().prices(answer(*CALL, segment("break", always(1.0), "1/0")))
    assert [part.kind for part in found.parts][-1] == "outside"
    assert sum(each.gap_ms for each in found.breaks) == pytest.approx(2.0)


def test_noise_is_no_excuse_for_any_sum() -> None:
    found = record().prices(answer(*CALL, plain=[*[3.0] * 4, *[6.0] * 4]))
    assert not found.parts and "add up to" in found.problem


def test_too_few_passes_and_passes_that_went_another_way_have_no_price() -> None:
    short = [{**each, "ms": each["ms"][:3]} for each in CALL]
    assert record().prices(answer(*short)) == Prices(problem="too few passes could be timed")
    odd = "7 of 9 passes took another way than the first"
    assert record().prices(answer(*CALL, problem=odd)) == Prices(problem=odd)


def test_guards_are_those_of_a_real_call_and_groups_have_their_share() -> None:
    guards = {
        "0/0": {"us": 50.0, "count": 2029, "groups": [{"source": "L['self'].configs", "sources": 2001, "us": 40.0}]}
    }
    (found,) = record().prices(answer(*CALL, guards=guards)).guards
    assert (found.us, found.count) == (pytest.approx(200.0), 2029)
    assert (found.groups[0].source, found.groups[0].us) == ("self.configs", pytest.approx(160.0))


@pytest.mark.parametrize(("guards", "call", "dear"), [(0.2, 3.0, True), (0.2, 5.0, False), (0.015, 0.03, False)])
def test_guards_are_dear_where_they_take_a_notable_share(guards: float, call: float, dear: bool) -> None:
    found = Prices(Interval(call, call, call), parts=[CallPart("guards", guards)])
    assert guards_are_dear(found) is dear


def test_a_change_of_the_source_fits_what_a_group_holds() -> None:
    groups = [GuardGroup("a", 40, 0.5, 5.0, "values"), GuardGroup("b", 40, 0.3, 3.0, "tensors"),
              GuardGroup("c", 40, 0.5, 5.0, "modules"), GuardGroup("d", 2, 0.5, 5.0, "values")]  # fmt: skip
    library = GuardPrice("1/0", Location(f"{TORCH}/nn/modules/linear.py", 3), 10.0, 80, [replace(groups[0])])
    advise(Prices(guards=[GuardPrice("0/0", Location(MODEL, 3), 10.0, 80, groups), library]), Places(TORCH))
    assert "plain numbers" in groups[0].advice and "stacked" in groups[1].advice
    assert [each.advice for each in [*groups[2:], *library.groups]] == ["", "", ""]


def test_a_break_has_the_id_of_the_report_that_it_stands_in() -> None:
    report = rich_report()
    known, other = report.graph_breaks[1], Location("/elsewhere.py", 3)
    found = prices((known.location, known.gb_type, "b1"), (other, "Another type", "b2"))
    report.measurements = [measured("default", 3.1, speedup(1.5, 1.4, 1.6), prices=found)]
    EXTRA.settle(report)
    assert [each.break_id for each in found.breaks] == [known.id, ""]
    assert {part.break_id for part in found.parts} == {known.id, ""}
