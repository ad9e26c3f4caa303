"""Each compile: how it ended, when it began, how long its phases took by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.capture import events
from dynalyze.capture.events import CompileEnded, CompileStarted
from dynalyze.events.log import RunLog
from dynalyze.facts.compilations import compilations, exclusive
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.render.chrome_trace import spans
from dynalyze.render.view.links import Anchors, Index
from dynalyze.render.view.timeline import MAX_ROWS, TimelineView
from dynalyze.report import PHASES, BackwardCompile, Compilation, CompileMemory, Report
from recordings import as_run, line_with, recorded, without_live_fields
from records import MAIN, TORCH, broke, end, failed, frame, process, run_of, start, torch_frame
from sample_reports import clean_report, compilation, empty_report, recompile, rich_report


def compiled(run: RunLog) -> list[Compilation]:
    return compilations(run, Places(TORCH), Sources())


def one(*events: Any) -> Compilation:
    (found,) = compiled(run_of(*events))
    return found


# (function, status, resumes) of each compilation of the recorded programs.
RECORDED: dict[str, list[tuple[str, str, bool]]] = {
    "nested_helpers": [
        ("forward", "broken", False),
        ("scale", "broken", False),
        ("announce", "broken", False),
        ("announce", "compiled", True),
        ("forward", "compiled", True),
    ],
    "break_in_loop": [("total", "eager", False)],
    "break_in_try": [("careful", "eager", False)],
    "break_in_context_manager": [
        ("own_manager", "eager", False),
        ("under_no_grad", "broken", False),
        ("under_no_grad", "compiled", True),
    ],
    "refused_under_fullgraph": [
        ("naps", "failed", False),
        ("branches", "failed", False),
        ("calls_helper", "failed", False),
    ],
    "shapes_do_not_fit": [("multiply", "failed", False)],
    "data_dependent_if": [("clip", "broken", False), ("clip", "compiled", True), ("clip", "compiled", True)],
}


@pytest.mark.parametrize("how", ["live", "stripped", "text"])
@pytest.mark.parametrize("name", RECORDED)
def test_status_of_recorded_compilations(name: str, how: str, tmp_path: Path) -> None:
    events = recorded(name, "text" if how == "text" else "live")
    found = compiled(as_run(without_live_fields(events) if how == "stripped" else events, tmp_path))
    assert [(c.function, c.status, c.resumes) for c in found] == RECORDED[name]


@pytest.mark.parametrize("how", ["live", "stripped", "text"])
def test_a_frame_left_in_eager_says_which_break_did_it(how: str, tmp_path: Path) -> None:
    events = recorded("break_in_try", "text" if how == "text" else "live")
    (found,) = compiled(as_run(without_live_fields(events) if how == "stripped" else events, tmp_path))
    assert found.reason == "Failed to trace builtin operator"


def test_recorded_callers_are_lines_of_the_program(tmp_path: Path) -> None:
    found = compiled(as_run(recorded("nested_helpers"), tmp_path))
    codes = ["forward(torch.ones", "return scale(x) - 3", "return announce(x * 2)"]
    assert [c.caller and c.caller.line for c in found[:3]] == [line_with("nested_helpers", code) for code in codes]


def test_a_reset_starts_another_epoch_with_the_same_ids(tmp_path: Path) -> None:
    found = compiled(as_run(recorded("two_epochs"), tmp_path))
    assert [(c.compile_id, c.epoch) for c in found] == [("0/0", 0), ("1/0", 0), ("0/0", 1), ("1/0", 1)]


def test_a_whole_graph() -> None:
    found = one(start("0/0", frame(10)), end(graph_op_count=12, guard_count=9))
    assert (found.status, found.reason, found.ops, found.guards, found.resumes) == ("compiled", "", 12, 9, False)
    assert (found.location.line, found.function) == (10, "forward")
    assert found.caller is not None
    assert found.caller.line == 90


def test_a_frame_with_a_break_in_it_is_compiled_in_part() -> None:
    assert one(start(), broke([frame(12)]), end()).status == "broken"


def test_a_frame_skipped_over_a_break_stays_in_eager() -> None:
    found = one(
        start(), broke([frame(12)]), failed([frame(12)], logged=True, refused=False), end(has_guarded_code=False)
    )
    assert (found.status, found.reason) == ("eager", "Failed to trace builtin operator")


def test_a_refusal_is_a_failure() -> None:
    found = one(start(), failed([frame(12)], refused=True), end(has_guarded_code=False))
    assert (found.status, found.reason) == ("failed", "Failed to trace builtin operator")


def test_an_error_of_the_backend_is_a_failure_that_names_it() -> None:
    found = one(
        start(),
        failed([], "backend='inductor' raised:\nAssertionError: x", exception="BackendCompilerFailed", refused=False),
        end(has_guarded_code=False, fail_type="BackendCompilerFailed"),
    )
    assert found.status == "failed"
    assert "backend='inductor' raised" in found.reason or "BackendCompilerFailed" in found.reason


def test_a_frame_without_tensor_operations_is_eager_without_a_fault() -> None:
    found = one(start(), end(has_guarded_code=False))
    assert (found.status, found.reason) == ("eager", "nothing to compile: no tensor operation was traced")


def test_a_compile_that_never_ended_failed() -> None:
    found = one(start())
    assert (found.status, found.reason) == ("failed", "the process ended while this was compiling")


def test_an_end_belongs_to_the_start_of_its_own_epoch_and_process() -> None:
    first = process(start(), end(graph_op_count=1), start(epoch=1))
    second = process(start(), end(graph_op_count=5), number=1, pid=4712)
    found = compiled(RunLog([first, second]))
    assert [(c.process, c.epoch, c.status, c.ops) for c in found] == [
        (0, 0, "compiled", 1),
        (0, 1, "failed", None),
        (1, 0, "compiled", 5),
    ]


def test_ids_of_interleaved_compiles_in_two_threads_do_not_mix() -> None:
    found = compiled(
        run_of(
            start("0/0", frame(10, "f")),
            start("1/0", frame(20, "g")),
            broke([frame(21, "g")], id="1/0"),
            end("0/0", graph_op_count=3),
            end("1/0", graph_op_count=4),
        )
    )
    assert [(c.function, c.status, c.ops) for c in found] == [("f", "compiled", 3), ("g", "broken", 4)]


def test_resumed_frames_bear_the_users_name() -> None:
    found = one(start("1/0", frame(12, "torch_dynamo_resume_in_forward_at_12")), end("1/0"))
    assert (found.function, found.location.function, found.resumes) == ("forward", "forward", True)


def test_the_caller_is_the_innermost_line_outside_torch() -> None:
    above = [MAIN, frame(40, "train"), torch_frame(9, "__call__", "nn/modules/container.py")]
    found = one(start("0/0", frame(10), above), end())
    assert found.caller is not None
    assert found.caller.line == 40
    assert one(start("0/0", frame(10), []), end()).caller is None


def test_times_are_inclusive_and_in_seconds() -> None:
    found = one(
        start(),
        end(
            duration_us=2_000_000,
            dynamo_cumulative_compile_time_us=1_900_000,
            aot_autograd_cumulative_compile_time_us=1_500_000,
            inductor_cumulative_compile_time_us=1_250_000,
            inductor_code_gen_cumulative_compile_time_us=500_000,
        ),
    )
    assert found.seconds == {
        "total": 2.0,
        "dynamo": 1.9,
        "aot_autograd": 1.5,
        "inductor": 1.25,
        "code_generation": 0.5,
    }


def test_older_columns_hold_seconds() -> None:
    found = one(start(), end(entire_frame_compile_time_s=2.5, backend_compile_time_s=1.5))
    assert (found.seconds["total"], found.seconds["aot_autograd"]) == (2.5, 1.5)


def test_the_backward_compile_has_its_own_time() -> None:
    found = one(
        start(),
        end(duration_us=2_000_000, graph_op_count=4),
        end(backward=True, duration_us=700_000, graph_op_count=9),
        end(backward=True, duration_us=300_000),
    )
    assert (found.seconds, found.ops) == ({"total": 2.0, "backward": 1.0}, 4)


def test_metrics_that_are_no_numbers_do_no_harm() -> None:
    found = one(start(), end(duration_us="soon", graph_op_count=None, guard_count="many"))
    assert (found.seconds, found.ops, found.guards) == ({}, None, None)


def test_cache_hits_of_forward_and_backward_add_up() -> None:
    found = one(
        start(),
        end(inductor_fx_local_cache_hit_count=1, inductor_fx_local_cache_miss_count=0),
        end(backward=True, inductor_fx_local_cache_hit_count=2, aotautograd_local_cache_miss_count=1),
    )
    assert found.cache == {"inductor_fx_local_cache_hit": 3, "aotautograd_local_cache_miss": 1}


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


STEPS = {"dynamo": 0.5, "guards": 0.25, "inductor": 1.0, "kernels": 8.0}


def with_costs(**metrics: Any) -> CompileEnded:
    return CompileEnded(
        id="0/0", metrics={"has_guarded_code": True, **metrics}, own=STEPS, memory=events.CompileMemorySeen(3, 2, 1)
    )  # type: ignore[typeddict-item]


def test_steps_that_torch_told_of_go_before_its_sums_and_what_none_accounts_for_is_other() -> None:
    told = with_costs(duration_us=10_000_000, aot_autograd_cumulative_compile_time_us=9_500_000)
    assert one(start(), told).exclusive == {**STEPS, "other": 0.25}


def test_steps_longer_than_the_whole_are_not_believed() -> None:
    told = with_costs(duration_us=1_000_000)
    assert one(start(), told).exclusive == {"other": 1.0}


def test_the_page_tells_the_most_that_a_compile_added_and_nothing_where_it_was_not_read() -> None:
    report = rich_report()
    assert "memory" not in " ".join(TimelineView(report, Index(report, Anchors()), Anchors()).sentences)
    first, second, *_ = report.compilations
    first.memory, second.memory = CompileMemory(50_000_000, 10_000_000, 0), CompileMemory(20_000_000, 0, 300_000_000)
    said = TimelineView(report, Index(report, Anchors()), Anchors()).sentences[-1]
    assert "50 MB more" in said
    assert f"({first.compile_id}, forward)" in said
    assert "300 MB" in said


def test_memory_is_told_of_each_direction_where_it_was_read() -> None:
    found = one(start(), with_costs(duration_us=1), end(backward=True, duration_us=1))
    assert found.memory == CompileMemory(3, 2, 1)
    assert [each.memory for each in found.backward] == [None]


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
    return TimelineView(report, Index(report, Anchors()), Anchors())


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
        begins, widths = ([part[at] for part in row.segments] for at in (1, 2))
        assert begins[0] == pytest.approx(row.x, abs=0.02)
        assert sum(widths) == pytest.approx(row.width, abs=0.1)
        for at, (left, width) in enumerate(zip(begins[:-1], widths, strict=False)):
            assert left + width == pytest.approx(begins[at + 1], abs=0.02)


def test_the_share_of_recompilation_is_said_in_words() -> None:
    report = timed(("0/0", 1.0, 3.0), ("0/1", 5.0, 1.0))
    assert view(report).sentences == ["4.0 s went into 2 compiles.", "None of it was recompilation."]
    report.recompiles = [recompile("r1", "0/1")]
    assert view(report).sentences[1] == "25% of compile time was recompilation (1.0 s)."
    report.recompiles = [recompile("r1", "0/1", cause="limit")]
    assert view(report).sentences[1] == "None of it was recompilation."


def test_the_backward_graph_of_a_recompile_is_recompilation_too() -> None:
    report = timed(("0/0", 1.0, 2.0), ("0/1", 5.0, 1.0))
    report.compilations[1].backward = [BackwardCompile(7.0, {"total": 1.0})]
    report.recompiles = [recompile("r1", "0/1")]
    assert view(report).sentences == [
        "4.0 s went into 2 compiles, 1.0 s of it into backward graphs.",
        "50% of compile time was recompilation (2.0 s).",
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
    assert (len(found.rows), found.shown.omitted) == (MAX_ROWS, 7)


@given(st.floats(0, 1e6), st.floats(1e-6, 1e6))
def test_the_axis_has_a_few_ticks_inside_of_it(start: float, length: float) -> None:
    found = view(timed(("0/0", start, length)))
    assert len(found.ticks) <= 7
    assert all(found.rows[0].x - 1 <= x <= found.width for x, _ in found.ticks)


def test_nothing_recorded_draws_nothing() -> None:
    assert view(empty_report()).table == []
    untimed = clean_report()
    for item in untimed.compilations:
        item.seconds = {}
    assert (view(untimed).table, view(untimed).sentences) == ([], [])
