"""Each compile: how it ended, when it began, how long its phases took by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.capture import events
from dynalyze.capture.events import CompileEnded, CompileStarted, Frame, MadeInEager
from dynalyze.events.log import RunLog
from dynalyze.facts.compilations import compilations, exclusive
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.render.chrome_trace import spans
from dynalyze.render.view.links import Anchors, Index
from dynalyze.render.view.timeline import TimelineView
from dynalyze.report import PHASES, BackwardCompile, Compilation, CompileFailure, Report
from recordings import as_run, line_with, recorded, without_live_fields
from records import TORCH, end, failed, frame, process, run_of, start
from sample_reports import compilation, empty_report


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


def test_reasons_callers_and_epochs_of_recorded_compilations(tmp_path: Path) -> None:
    for how in ("live", "text"):
        (found,) = compiled(as_run(recorded("break_in_try", how), tmp_path / how))
        assert found.reason == "Failed to trace builtin operator"
    callers = compiled(as_run(recorded("nested_helpers"), tmp_path / "nested"))
    codes = ["forward(torch.ones", "return scale(x) - 3", "return announce(x * 2)"]
    assert [c.caller and c.caller.line for c in callers[:3]] == [line_with("nested_helpers", code) for code in codes]
    reset = compiled(as_run(recorded("two_epochs"), tmp_path / "reset"))
    assert [(c.compile_id, c.epoch) for c in reset] == [("0/0", 0), ("1/0", 0), ("0/0", 1), ("1/0", 1)]


def test_how_a_compile_ends_without_numbers() -> None:
    found = one(start(), end(has_guarded_code=False))
    assert (found.status, found.reason) == ("eager", "nothing to compile: no tensor operation was traced")
    found = one(start())
    assert (found.status, found.reason) == ("failed", "the process ended while this was compiling")
    found = one(start(), end(duration_us="soon", graph_op_count=None, guard_count="many"))
    assert (found.seconds, found.ops, found.guards) == ({}, None, None)
    found = one(start(), end(entire_frame_compile_time_s=2.5, backend_compile_time_s=1.5))
    assert (found.seconds["total"], found.seconds["aot_autograd"]) == (2.5, 1.5), "older columns hold seconds"


def test_an_end_belongs_to_the_start_of_its_own_epoch_and_process() -> None:
    first = process(start(), end(graph_op_count=1), start(epoch=1))
    second = process(start(), end(graph_op_count=5), number=1, pid=4712)
    found = compiled(RunLog([first, second]))
    assert [(c.process, c.epoch, c.status, c.ops) for c in found] == [
        (0, 0, "compiled", 1),
        (0, 1, "failed", None),
        (1, 0, "compiled", 5),
    ]


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


STEPS = {"dynamo": 0.5, "guards": 0.25, "inductor": 1.0, "kernels": 8.0}


def with_costs(**metrics: Any) -> CompileEnded:
    return CompileEnded(
        id="0/0", metrics={"has_guarded_code": True, **metrics}, own=STEPS, memory=events.CompileMemorySeen(3, 2, 1)
    )  # type: ignore[typeddict-item]


def test_steps_that_torch_told_of_go_before_its_sums_and_what_none_accounts_for_is_other() -> None:
    told = with_costs(duration_us=10_000_000, aot_autograd_cumulative_compile_time_us=9_500_000)
    assert one(start(), told).exclusive == {**STEPS, "other": 0.25}


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


def test_a_compile_begins_where_torch_says_or_else_the_event() -> None:
    """A clock of another zone, as in the lines of a log, is not mixed with torch's own."""
    told = ended(NOON + 5, start_time_us=int((NOON + 2.25) * 1e6), duration_us=2_000_000)
    elsewhere = ended(NOON + 5, start_time_us=int((NOON + 7202) * 1e6), duration_us=1_000_000)
    for seen, at, began in (
        ([started(NOON + 2.3), told], NOON, pytest.approx(2.25)),
        ([started(NOON + 2.5)], NOON, 2.5),
        ([started(NOON + 2), elsewhere], NOON, 2),
        ([started(0.0), ended(0.0, duration_us=5)], 0.0, None),
    ):
        (found,) = times(process(*seen, at=at))
        assert found.began == began
    (found,) = times(process(started(NOON), ended(NOON + 9, backward=True, duration_us=2_000_000), at=NOON))
    assert found.backward[0].began == 7


def test_processes_share_one_clock() -> None:
    found = times(process(started(NOON + 1), at=NOON), process(started(NOON + 4), number=1, pid=2, at=NOON + 3))
    assert [each.began for each in found] == [1, 4]


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


# Drawn.


def view(report: Report) -> TimelineView:
    return TimelineView(report, Index(report, Anchors()))


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


# As torch 2.13 words them.
ON_FAKES = """RuntimeError when making fake tensor call
  Explanation: Dynamo failed to run FX node with fake tensors: call_method view(*(FakeTensor(..., size=(2, s13)), -1), **{}): got ValueError('Cannot view a tensor\\nof shape [2, s13]: \\'x\\'')
  Hint: Your code may result in an error when running in eager. Please double check.
  Hint: Another hint.

  Developer debug context:

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb4315.html

from user code:
   File "/m.py", line 7, in loss
"""  # noqa: E501
BY_BACKEND = """backend='aot_eager' raised:
ValueError: no code for this

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""
OWN = Frame("/work/model.py", 7, "loss")
INNER = Frame("/work/parts.py", 3, "scale")
OF_TORCH = Frame(f"{TORCH}/_functorch/vmap.py", 316, "vmap_impl")


def failure(
    message: str, *inside: Frame, then: tuple[MadeInEager, ...] = (), kind: str = "TorchRuntimeError"
) -> CompileFailure:
    ended = failed(inside, message, exception=kind), end(fail_type=kind, has_guarded_code=False)
    (found,) = compilations(run_of(start(), *ended, *then), Places(TORCH), Sources())
    assert found.status == "failed" and found.failure is not None
    return found.failure


def test_the_innermost_line_of_the_program_and_torchs_words() -> None:
    found = failure(ON_FAKES, OWN, OF_TORCH, INNER, OF_TORCH)
    assert found.location is not None
    assert (found.location.file, found.location.line, found.location.function) == ("/work/parts.py", 3, "scale")
    assert [place.line for place in found.stack] == [7, 3]
    assert found.message == "ValueError: Cannot view a tensor of shape [2, s13]: 'x'"
    assert found.hints == ["Another hint."]
    assert found.eager is None


@pytest.mark.parametrize("error", ["", "RuntimeError: view size is not compatible"])
def test_how_eager_ended(error: str) -> None:
    assert failure(ON_FAKES, OWN, then=(MadeInEager(error=error),)).eager == error


def test_a_backend_that_raises_has_no_line() -> None:
    found = failure(BY_BACKEND, kind="BackendCompilerFailed")
    assert (found.backend, found.message, found.location) == ("aot_eager", "ValueError: no code for this", None)
