"""Each attempt to compile a frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dynalyze.events.log import RunLog
from dynalyze.facts.compilations import compilations
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report import Compilation
from recordings import as_run, line_with, recorded, without_live_fields
from records import MAIN, TORCH, broke, end, failed, frame, process, run_of, start, torch_frame


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
