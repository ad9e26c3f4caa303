"""From stamped passes to prices, on answers written by hand; the compiles are those of events written by hand."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec.structs import replace

from dynalyze.bench.prices import Record, Trials, advise, guards_are_dear, name_breaks
from dynalyze.bench.workers import WorkerFailed
from dynalyze.facts.stacks import Places
from dynalyze.report import Location
from dynalyze.report.measurements import CallPart, GuardGroup, GuardPrice, GuardRemedy, Interval, Prices
from records import MODEL, PRINT, TORCH, broke, end, frame, run_of, start
from sample_measurements import measured, prices, remedy, speedup
from sample_reports import rich_report

BROKEN = frame(14)
RESUMED = frame(14, "torch_dynamo_resume_in_forward_at_14")


def record() -> Record:
    """forward breaks at line 14; its rest is compiled as 1/0; helper (0 graphs) was left in eager by a break at 41."""
    events = (
        start("0/0", frame(10)), broke([BROKEN], PRINT), end("0/0", duration_us=500_000),
        start("1/0", RESUMED), end("1/0", duration_us=900_000),
        start("2/0", frame(40, "helper")), broke([frame(41, "helper")], PRINT, id="2/0"),
        end("2/0", has_guarded_code=False),
    )  # fmt: skip
    return Record(run_of(*events), TORCH)


def segment(kind: str, ms: list[float], compile_id: str = "", **more: Any) -> dict[str, Any]:
    known = {"step": 0, "function": None, "opened_by": "", "unguarded_ms": []}
    return {**known, "kind": kind, "compile_id": compile_id, "ms": ms, **more}


def answer(*segments: dict[str, Any], plain: list[float] | None = None, **more: Any) -> dict[str, Any]:
    stamped = [sum(each) for each in zip(*(part["ms"] for part in segments), strict=True)]
    known = {"plain_ms": plain or stamped, "calls": 1, "problem": "", "hits": {"0/0": 1}, "guards": {}}
    return {"segments": list(segments), "stamped_ms": stamped, **known, **more}


def always(ms: float) -> list[float]:
    return [ms] * 8


CALL = (
    segment("entry", always(0.3), "0/0", unguarded_ms=always(0.1)),
    segment("graph", always(1.0), "0/0"),
    segment("gap", always(2.0), "0/0"),
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
    helper = segment("gap", always(1.5), function=[MODEL, "helper", 40], opened_by="0/0")
    found = record().prices(answer(*CALL, helper))
    assert {each.place.line: pytest.approx(each.gap_ms) for each in found.breaks} == {14: 2.0, 41: 1.5}


def test_eager_code_that_no_break_left_there_is_nobodys() -> None:
    found = record().prices(answer(*CALL, segment("gap", always(1.0), "1/0")))
    assert [part.kind for part in found.parts][-1] == "outside"
    assert sum(each.gap_ms for each in found.breaks) == pytest.approx(2.0)


def test_the_calls_of_a_pass_share_its_time() -> None:
    whole, half = record().prices(answer(*CALL)), record().prices(answer(*CALL, calls=2))
    assert whole.call_ms is not None and half.call_ms is not None
    assert half.call_ms.value == pytest.approx(whole.call_ms.value / 2)
    assert half.breaks[0].ms.value == pytest.approx(whole.breaks[0].ms.value / 2)
    assert half.breaks[0].share == pytest.approx(whole.breaks[0].share)


@pytest.mark.parametrize("plain", [6.0, 3.0])
def test_parts_that_do_not_add_up_to_the_call_are_not_told(plain: float) -> None:
    found = record().prices(answer(*CALL, plain=always(plain)))
    assert not found.parts and not found.breaks
    assert "add up to" in found.problem


def test_no_price_is_larger_than_the_call() -> None:
    gap = segment("gap", always(10.3), "0/0")
    found = record().prices(answer(gap, plain=always(10.0)))
    assert (found.breaks[0].ms.value, found.breaks[0].share) == (pytest.approx(10.0), pytest.approx(1.0))


def test_noise_is_no_excuse_for_any_sum() -> None:
    found = record().prices(answer(*CALL, plain=[*[3.0] * 4, *[6.0] * 4]))
    assert not found.parts and "add up to" in found.problem


def test_too_few_passes_and_passes_that_went_another_way_have_no_price() -> None:
    short = [{**each, "ms": each["ms"][:3]} for each in CALL]
    assert record().prices(answer(*short)) == Prices(problem="too few passes could be timed")
    odd = "7 of 9 passes took another way than the first"
    assert record().prices(answer(*CALL, problem=odd)) == Prices(problem=odd)


def test_one_slow_pass_changes_nothing() -> None:
    slow = [{**each, "ms": [*each["ms"], 50 * each["ms"][0]]} for each in CALL]
    assert record().prices(answer(*slow)).breaks[0].ms.value == pytest.approx(2.25)


def test_guards_are_those_of_a_real_call_and_groups_have_their_share() -> None:
    guards = {
        "0/0": {"us": 50.0, "count": 2029, "groups": [{"source": "L['self'].configs", "sources": 2001, "us": 40.0}]}
    }
    (found,) = record().prices(answer(*CALL, guards=guards)).guards
    assert (found.us, found.count) == (pytest.approx(200.0), 2029)
    assert (found.groups[0].source, found.groups[0].us) == ("self.configs", pytest.approx(160.0))


class Worker:
    """Answers as a measuring process does; the trial named in `dies_at` ends it."""

    def __init__(self, dies_at: str = "") -> None:
        self.asked: list[str] = []
        self._dies_at = dies_at

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        if do == "remedies":
            known = {"setting": "s", "safe": True, "skips": "k", "risk": "r"}
            return {"remedies": [{"name": name, **known} for name in ("first", "pointless", "last")]}
        name = details["name"]
        self.asked.append(name)
        if name == self._dies_at:
            raise WorkerFailed("died", "the process was killed")
        return {**TRIED, "pointless": name == "pointless"}


TRIED: dict[str, Any] = {
    "plain_ms": [4.0, 4.2] * 5, "remedy_ms": [3.0, 3.2] * 5, "outputs": "equal", "guards": 40, "dropped": 30,
    "added_versions": 1, "added_breaks": 0, "problem": "", "pointless": False,
}  # fmt: skip


def tried(worker: Worker, left: float = 100.0) -> list[GuardRemedy]:
    return Trials(cast(Any, worker), {"timed": 1.0}, left, longest=1.0).take(calls=2)


def test_a_remedy_gains_what_lies_between_its_calls_and_those_without_it() -> None:
    first, last = tried(Worker())
    assert (first.name, last.name) == ("first", "last"), "one that changes nothing is left out"
    assert first.before_ms is not None and first.after_ms is not None and first.gain_ms is not None
    assert (first.before_ms.value, first.after_ms.value) == (pytest.approx(2.05), pytest.approx(1.55))
    assert (first.gain_ms.low, first.gain_ms.high) == (pytest.approx(0.5), pytest.approx(0.5)), "pair by pair"
    assert (first.dropped, first.guards, first.added_versions, first.gains) == (30, 40, 1, True)


def test_trials_end_with_their_time_and_with_their_process() -> None:
    late, dead = Worker(), Worker(dies_at="first")
    assert [each.problem for each in tried(late, left=0.5)] == ["not tried: there was no time left for it"] * 3
    assert late.asked == []
    assert [each.problem for each in tried(dead)] == [
        "the process was killed",
        *["not tried: the process had ended"] * 2,
    ]
    assert dead.asked == ["first"]


@pytest.mark.parametrize(
    "changes", [{"outputs": "not comparable"}, {"outputs": "different"}, {"problem": "it compiled again"},
                {"gain_ms": Interval(0.5, -0.1, 1.1)}, {"gain_ms": Interval(0.02, 0.01, 0.03)}, {"gain_ms": None}],
)  # fmt: skip
def test_a_gain_is_clear_or_none(changes: dict[str, Any]) -> None:
    sure = remedy("any", 0.5)
    assert sure.gains and not replace(sure, **changes).gains


@pytest.mark.parametrize(("guards", "call", "dear"), [(0.2, 3.0, True), (0.2, 5.0, False), (0.015, 0.03, False)])
def test_remedies_are_tried_where_guards_take_a_notable_share(guards: float, call: float, dear: bool) -> None:
    found = Prices(Interval(call, call, call), parts=[CallPart("guards", guards)])
    assert guards_are_dear(found) is dear


def test_a_change_of_the_source_fits_what_a_group_holds() -> None:
    groups = [GuardGroup("a", 40, 0.5, 5.0, "values"), GuardGroup("b", 40, 0.3, 3.0, "tensors"),
              GuardGroup("c", 40, 0.5, 5.0, "modules"), GuardGroup("d", 2, 0.5, 5.0, "values")]  # fmt: skip
    library = GuardPrice("1/0", Location(f"{TORCH}/nn/modules/linear.py", 3), 10.0, 80, [replace(groups[0])])
    advise(Prices(guards=[GuardPrice("0/0", Location(MODEL, 3), 10.0, 80, groups), library]), Places(TORCH))
    assert "plain numbers" in groups[0].advice and "stacked" in groups[1].advice
    assert all(each.advice.startswith("untried: ") for each in groups[:2])
    assert [each.advice for each in [*groups[2:], *library.groups]] == ["", "", ""]


def test_a_break_has_the_id_of_the_report_that_it_stands_in() -> None:
    report = rich_report()
    known, other = report.graph_breaks[1], Location("/elsewhere.py", 3)
    found = prices((known.location, known.gb_type, "b1"), (other, "Another type", "b2"))
    report.measurements = [measured("default", 3.1, speedup(1.5, 1.4, 1.6), prices=found)]
    name_breaks(report)
    assert [each.break_id for each in found.breaks] == [known.id, ""]
    assert {part.break_id for part in found.parts} == {known.id, ""}


def test_without_a_break_a_call_takes_at_best_what_is_left_of_it() -> None:
    (found,) = record().prices(answer(*CALL)).breaks
    assert found.without_ms == pytest.approx(4.1 - 2.25)
    (all_of_it,) = record().prices(answer(segment("gap", always(10.3), "0/0"), plain=always(10.0))).breaks
    assert all_of_it.without_ms == pytest.approx(0.0)


def test_what_a_busy_machine_adds_is_told_beside_the_prices() -> None:
    assert record().prices(answer(*CALL, waited=0.62)).waited == 0.62
    assert record().prices(answer(*CALL)).waited is None
