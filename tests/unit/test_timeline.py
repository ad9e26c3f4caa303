"""When compiles began, what each phase took itself, and the page's drawing of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.events.log import RunLog
from dynalyze.events.types import CompileEnded, CompileStarted
from dynalyze.facts.compilations import compilations
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.facts.timeline import exclusive
from dynalyze.render.chrome_trace import spans
from dynalyze.render.view.links import Anchors, Index, index
from dynalyze.render.view.timeline import MAX_ROWS, TimelineView, timeline_view
from dynalyze.report import PHASES, BackwardCompile, Compilation, Report
from records import TORCH, frame, process
from sample_reports import clean_report, compilation, empty_report, recompile, rich_report

NOON = 1_800_000_000.0  # A moment as time.time() tells it.


def test_what_torch_counts_twice_is_taken_apart() -> None:
    # The numbers of a real compile: each column holds the next one.
    inclusive = {"total": 19.2, "dynamo": 19.2, "aot_autograd": 18.87, "inductor": 17.57, "code_generation": 17.12}
    assert exclusive(inclusive) == pytest.approx(
        {"other": 0.0, "dynamo": 0.33, "aot_autograd": 1.3, "inductor": 0.45, "code_generation": 17.12}
    )


def test_a_phase_that_is_not_known_leaves_its_time_to_the_one_around_it() -> None:
    assert exclusive({"total": 3.0, "inductor": 2.0}) == {"other": 1.0, "inductor": 2.0}
    assert exclusive({"total": 3.0}) == {"other": 3.0}
    assert exclusive({}) == {}
    assert exclusive({"backward": 3.0}) == {}


def test_a_phase_longer_than_the_one_around_it_is_cut() -> None:
    assert exclusive({"total": 1.0, "dynamo": 1.5, "inductor": 4.0}) == {"other": 0.0, "dynamo": 0.0, "inductor": 1.0}


seconds = st.dictionaries(st.sampled_from(PHASES), st.floats(-10, 1e6, allow_nan=False))


@given(seconds)
def test_the_parts_are_never_negative_and_add_up_to_the_outermost(inclusive: dict[str, float]) -> None:
    parts = exclusive(inclusive)
    outermost = next((inclusive[phase] for phase in PHASES if phase in inclusive), 0.0)
    assert all(part >= 0 for part in parts.values())
    assert sum(parts.values()) == pytest.approx(max(0.0, outermost), abs=1e-5)


# On the clock of the run.


def started(at: float, id: str = "0/0") -> CompileStarted:
    return CompileStarted(id=id, at=at, code=frame(10))


def ended(at: float, id: str = "0/0", backward: bool = False, **metrics: Any) -> CompileEnded:
    return CompileEnded(id=id, at=at, backward=backward, metrics={"has_guarded_code": True, **metrics})


def times(*logs: Any) -> list[Compilation]:
    return compilations(RunLog(list(logs)), Places(TORCH), Sources())


def test_a_compile_begins_where_torch_says() -> None:
    end = ended(NOON + 5, start_time_us=int((NOON + 2.25) * 1e6), duration_us=2_000_000)
    (found,) = times(process(started(NOON + 2.3), end, at=NOON))
    assert found.began == pytest.approx(2.25)


def test_without_torchs_own_reading_the_event_tells() -> None:
    (found,) = times(process(started(NOON + 2.5), at=NOON))
    assert found.began == 2.5


def test_another_clock_is_not_mixed_with_ours() -> None:
    """The lines of a log have no time zone; torch's own reading has."""
    end = ended(NOON + 5, start_time_us=int((NOON + 7202) * 1e6), duration_us=1_000_000)
    (found,) = times(process(started(NOON + 2), end, at=NOON))
    assert found.began == 2


def test_processes_share_one_clock() -> None:
    found = times(process(started(NOON + 1), at=NOON), process(started(NOON + 4), number=1, pid=2, at=NOON + 3))
    assert [each.began for each in found] == [1, 4]


def test_without_the_start_of_the_run_the_first_compile_is_zero() -> None:
    found = times(process(started(NOON + 1), started(NOON + 1.5, "1/0"), at=0.0))
    assert [each.began for each in found] == [0, 0.5]


def test_what_nobody_knows_stays_unknown() -> None:
    (found,) = times(process(started(0.0), ended(0.0, duration_us=5), at=0.0))
    assert found.began is None


def test_a_backward_compile_is_a_span_of_its_own() -> None:
    forward = ended(NOON + 3, start_time_us=int((NOON + 1) * 1e6), duration_us=2_000_000)
    later = ended(
        NOON + 9, backward=True, start_time_us=int((NOON + 8) * 1e6), duration_us=900_000,
        inductor_cumulative_compile_time_us=600_000,
    )  # fmt: skip
    (found,) = times(process(started(NOON + 1), forward, later, at=NOON))
    assert found.seconds == {"total": 2.0, "backward": 0.9}
    assert found.exclusive == {"other": 2.0}
    (span,) = found.backward
    assert span.began == pytest.approx(8)
    assert span.seconds == {"total": 0.9, "inductor": 0.6}
    assert span.exclusive == pytest.approx({"other": 0.3, "inductor": 0.6})


def test_a_backward_compile_without_its_start_began_its_length_before_its_end() -> None:
    (found,) = times(process(started(NOON), ended(NOON + 9, backward=True, duration_us=2_000_000), at=NOON))
    assert found.backward[0].began == 7


# Drawn.


def view(report: Report) -> TimelineView:
    return timeline_view(report, links(report), Anchors())


def links(report: Report) -> Index:
    return index(report, Anchors(), 300, 300, 300)


def timed(*found: tuple[str, float | None, float]) -> Report:
    report = empty_report()
    for compile_id, began, length in found:
        item = compilation(compile_id, seconds=length)
        item.began = began
        report.compilations.append(item)
    return report


def test_rows_stand_in_order_of_their_start() -> None:
    report = timed(("0/0", 5.0, 1.0), ("1/0", 2.0, 1.0))
    report.compilations[0].backward = [BackwardCompile(3.0, {"total": 1.0})]
    assert [row.label.split()[0] for row in view(report).rows] == ["1/0", "0/0", "0/0"]
    assert "backward" in view(report).rows[1].label
    assert [span.backward for span in spans(report)] == [False, True, False]


def test_bars_are_to_scale() -> None:
    first, second = view(timed(("0/0", 10.0, 1.0), ("1/0", 12.0, 2.0))).rows
    assert second.width == pytest.approx(2 * first.width, abs=0.1)
    assert second.x - first.x == pytest.approx(2 * first.width, abs=0.1)


def test_a_bar_is_filled_by_its_phases() -> None:
    for row in view(rich_report()).rows:
        assert row.segments[0].x == pytest.approx(row.x, abs=0.02)
        assert sum(part.width for part in row.segments) == pytest.approx(row.width, abs=0.1)
        for left, right in zip(row.segments, row.segments[1:], strict=False):
            assert left.x + left.width == pytest.approx(right.x, abs=0.02)


def test_the_share_of_recompilation_is_said_in_words() -> None:
    report = timed(("0/0", 1.0, 3.0), ("0/1", 5.0, 1.0))
    assert view(report).sentences == ["4.0 s went into 2 compiles.", "None of it was recompilation."]
    report.recompiles = [recompile("r1", "0/1")]
    assert view(report).sentences[1] == "25 % of compile time was recompilation (1.0 s)."
    report.recompiles = [recompile("r1", "0/1", cause="limit")]
    assert view(report).sentences[1] == "None of it was recompilation."


def test_the_backward_graph_of_a_recompile_is_recompilation_too() -> None:
    report = timed(("0/0", 1.0, 2.0), ("0/1", 5.0, 1.0))
    report.compilations[1].backward = [BackwardCompile(7.0, {"total": 1.0})]
    report.recompiles = [recompile("r1", "0/1")]
    assert view(report).sentences == [
        "4.0 s went into 2 compiles, 1.0 s of it into backward graphs.",
        "50 % of compile time was recompilation (2.0 s).",
    ]


def test_a_compile_of_another_process_with_the_same_id_is_no_recompile() -> None:
    report = timed(("0/0", 1.0, 3.0), ("0/1", 5.0, 1.0))
    report.recompiles = [recompile("r1", "0/1", process=1)]
    assert view(report).sentences[1] == "None of it was recompilation."


def test_a_compile_without_a_start_is_told_and_stays_in_the_table() -> None:
    found = view(timed(("0/0", 1.0, 3.0), ("1/0", None, 1.0)))
    assert len(found.rows) == 1
    assert [row.began for row in found.table] == ["1.000 s", ""]
    assert found.sentences[-1] == "The start of 1 compile is not known: the table alone has those."


def test_too_many_rows_are_counted() -> None:
    found = view(timed(*((f"{at}/0", float(at), 0.5) for at in range(MAX_ROWS + 7))))
    assert (len(found.rows), found.amount.omitted) == (MAX_ROWS, 7)


@given(st.floats(0, 1e6), st.floats(1e-6, 1e6))
def test_the_axis_has_a_few_ticks_inside_of_it(start: float, length: float) -> None:
    found = view(timed(("0/0", start, length)))
    assert len(found.ticks) <= 7
    assert all(found.labels - 1 <= tick.x <= found.width for tick in found.ticks)


def test_nothing_recorded_draws_nothing() -> None:
    assert view(empty_report()).table == []
    untimed = clean_report()
    for item in untimed.compilations:
        item.seconds = {}
    assert (view(untimed).table, view(untimed).sentences) == ([], [])
