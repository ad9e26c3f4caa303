"""How a run ended, and what its report says about that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dynalyze.capture.events import (
    CandidateEntry,
    CandidatesCounted,
    CandidateSeen,
    Definitions,
    Frame,
    GraphSeen,
    InPlaceStarted,
    Lost,
    MethodSeen,
    Misused,
    ModuleClass,
    NothingCompiled,
    PartSeen,
    ProgramEnded,
    TargetEnded,
    TorchLoaded,
    TracedSeen,
    Wrapped,
)
from dynalyze.events.log import RunLog
from dynalyze.facts.build import Ended, build_report, misuse
from dynalyze.report import Report, Target
from dynalyze.report.document import from_json, to_json
from records import MAIN, TORCH, again, broke, end, failed, frame, process, run_of, start

OK = TargetEnded(exit_status=0)
COMPILED = (start(), end())


def report_of(*events: Any, reason: str = "ended", status: int | None = 0, seconds: float = 12.345678) -> Report:
    return build_report(
        run_of(*events), Ended(reason, status, seconds), Target("script", "model.py"), ["explain", "model.py"]
    )


def raised(exception: str, *told: Any) -> TargetEnded:
    fields = dict(zip(("message", "file", "line"), told, strict=False))
    return TargetEnded(exit_status=1, exception=exception, **fields)


@pytest.mark.parametrize(
    ("events", "status", "outcome", "said"),
    [
        ([ProgramEnded(exit_status=0), OK], 0, "complete", ""),
        ([raised("ValueError", "ValueError: no batch", "/m.py", 7)], 1, "failed",
         "ValueError: no batch at /m.py:7"),
        ([raised("KeyError")], 1, "failed", "KeyError"),
        ([TargetEnded(exit_status=3)], 3, "failed", "exit status 3"),
        ([], 4, "failed", "os._exit with status 4"),
    ],
)  # fmt: skip
def test_how_a_program_ended_by_itself(events: list[Any], status: int, outcome: str, said: str) -> None:
    found = report_of(*COMPILED, *events, status=status).outcome
    assert (found.status, found.exit_status, found.seconds) == (outcome, status, 12.346)
    assert said in found.message and bool(said) == bool(found.message)


def test_an_end_before_anything_was_compiled_and_an_interrupt() -> None:
    early = report_of(status=0).outcome
    assert early.status == "nothing_compiled" and "os._exit" in early.message
    pressed = report_of(*COMPILED, reason="interrupted", status=None).outcome
    assert (pressed.status, pressed.exit_status) == ("interrupted", None)


@pytest.mark.parametrize(("status", "name"), [(-11, "SIGSEGV"), (-9, "SIGKILL"), (-6, "SIGABRT"), (-200, "200")])
def test_a_crash_names_its_signal_and_what_was_compiling(status: int, name: str) -> None:
    done, pending = start("0/0", frame(10, "encode")), start("1/0", frame(20, "decode"))
    outcome = report_of(done, end("0/0"), pending, status=status).outcome
    assert (outcome.status, outcome.exit_status) == ("failed", status)
    assert outcome.message == f"The program was killed by {name} while decode was compiling."
    assert report_of(*COMPILED, status=status).outcome.message == f"The program was killed by {name}."


NOTHING: list[tuple[str, list[Any], list[str]]] = [
    (
        "variable",
        [NothingCompiled(variable="TORCH_COMPILE_DISABLE", disabled=True)],
        ["TORCH_COMPILE_DISABLE", "unset"],
    ),
    ("stance", [NothingCompiled(stance="force_eager")], ["set_stance", "force_eager"]),
    ("config", [NothingCompiled(disabled=True)], ["torch._dynamo.config.disable"]),
    (
        "generate",
        [
            NothingCompiled([Wrapped("module", "Llama", "/a/chat.py", 9, called=False, bypassed=True)]),
            MethodSeen(Frame("/a/chat.py", 12), "generate", "Llama", [PartSeen(calls=3)]),
            MethodSeen(Frame("/a/chat.py", 14), "speak", "Other", [PartSeen(calls=3)]),
        ],
        ["Llama", "chat.py:9", ": generate() of", "model.compile()"],
    ),
    (
        "bypassed",
        [NothingCompiled(wrapped=[Wrapped("module", "Net", "/a/run.py", 9, called=True, bypassed=True)])],
        ["Net", "run.py:9", "model.compile()"],
    ),
    (
        "compile() of a module of torch",
        [NothingCompiled([Wrapped("module", "Sequential", "/a/run.py", 9, bypassed=True, in_place_of_torch=True)])],
        ["Sequential", "run.py:9", "model = torch.compile(model)"],
    ),
    (
        "module never called",
        [NothingCompiled(wrapped=[Wrapped("module", "Net", "/a/run.py", 9)])],
        ["Net", "run.py:9", "never called"],
    ),
    (
        "function",
        [NothingCompiled(wrapped=[Wrapped("function", "loss", "/a/run.py", 4)])],
        ["loss()", "run.py:4", "no frame was compiled"],
    ),
    (
        "called, yet skipped",
        [NothingCompiled(wrapped=[Wrapped("module", "Net", "/a/run.py", 9, called=True)])],
        ["Net", "run.py:9", "skipped"],
    ),
    (
        "an idle one among others",
        [NothingCompiled([Wrapped("module", "A", "/a/r.py", 1, called=True), Wrapped("module", "B", "/a/r.py", 2)])],
        ["B", "r.py:2", "never called"],
    ),
    (
        "only classes",
        [
            Definitions(
                spec="net.py",
                modules=[ModuleClass("Deep", "(width)", "(x)"), ModuleClass("Net", "()", "(x, y)", True, 2)],
            )
        ],
        ["Deep(width), Net()", "dynalyze explain net.py:Net", '--input "(torch.randn(2, 3), torch.randn(2, 3))"'],
    ),
    (
        "classes that need arguments",
        [Definitions(spec="net.py", modules=[ModuleClass("Deep", "(width)", "(x)")])],
        ["Deep needs arguments", "make()", "dynalyze explain net.py:make", '--input "torch.randn(2, 3)"'],
    ),
    ("a model without inputs", [Definitions(spec="net.py", has_model=True)], ["example_inputs", "--input"]),
    ("nothing at all", [Definitions(spec="net.py")], ["compiled nothing and called no nn.Module"]),
    ("nothing known", [], ["No call of torch.compile"]),
]  # fmt: skip


@pytest.mark.parametrize(("events", "says"), [case[1:] for case in NOTHING], ids=[case[0] for case in NOTHING])
def test_nothing_was_compiled_and_why(events: list[Any], says: list[str]) -> None:
    report = report_of(*events, OK)
    assert (report.outcome.status, report.outcome.exit_status) == ("nothing_compiled", 0)
    for part in says:
        assert part in report.outcome.message
    assert report.capture.mode == "none"


NET = CandidateEntry(
    "module", "net", "Net", "/m.py", 30, "forward", calls=12, parameters=20, seconds=3.0, compiled=True
)  # fmt: skip
LOSS = CandidateEntry("module", "loss", "CrossEntropyLoss", calls=6, parameters=0, seconds=1.0, reason="no_parameters")
STEP = CandidateEntry("function", "step", file="/m.py", line=50, function="step", reason="function")


def test_a_program_that_is_compiled_in_its_own_calls() -> None:
    report = report_of(
        InPlaceStarted(), *COMPILED, CandidatesCounted(seconds=5.0, entries=[STEP, LOSS, NET]), ProgramEnded(), OK
    )
    assert (report.capture.mode, report.capture.recorded_calls, report.capture.notes) == ("in_place", 12, [])
    assert (report.outcome.status, report.outcome.message) == ("complete", "")
    assert [(row.name, row.calls, row.share, row.compiled, row.reason) for row in report.candidates] == [
        ("net", 12, 0.6, True, ""),
        ("loss", 6, 0.2, False, "no_parameters"),
        ("step", None, None, False, "function"),
    ]
    place = report.candidates[0].location
    assert place is not None
    assert (place.file, place.line, place.function) == ("/m.py", 30, "forward")


def test_a_program_that_calls_modules_in_constructors_alone_is_told_so() -> None:
    built = CandidateEntry("module", "", "Detector", "/m.py", 7, "__init__", reason="constructor")
    report = report_of(CandidatesCounted(seconds=1.0, entries=[built]), ProgramEnded(), OK)
    assert report.outcome.status == "nothing_compiled"
    assert "in the constructor of Detector alone" in report.outcome.message


def test_of_a_program_that_was_killed_the_last_counts_and_all_first_calls_are_known() -> None:
    """The table is told from time to time; what was called first after that has no count yet."""
    late = CandidateEntry("module", "head", "Head", parameters=2, calls=0, seconds=0.0)
    counted = [CandidatesCounted(seconds, [replace(NET, calls=int(seconds))]) for seconds in (10.0, 20.0)]
    report = report_of(InPlaceStarted(), CandidateSeen(replace(NET, calls=0)), *counted, CandidateSeen(late), status=-9)
    assert [(row.name, row.calls, row.seconds) for row in report.candidates] == [("net", 20, 3.0), ("head", None, None)]


def test_modules_that_nothing_tells_apart_are_one_row_for_each_end_that_they_came_to() -> None:
    layers = [CandidateEntry("module", "", "Layer", calls=2, parameters=3, seconds=1.0, compiled=True)] * 64
    late = CandidateEntry("module", "", "Layer", calls=12, parameters=3, seconds=2.0, reason="too_many")
    report = report_of(
        InPlaceStarted(),
        CandidateSeen(replace(late, calls=0, reason="")),
        CandidatesCounted(100.0, [*layers, late]),
        OK,
    )
    assert [(row.calls, row.parameters, row.seconds, row.share, row.compiled) for row in report.candidates] == [
        (128, 192, 64.0, 0.64, True),
        (12, 3, 2.0, 0.02, False),
    ]
    assert report.capture.recorded_calls == 128


def test_what_was_lost_is_said_and_bounded() -> None:
    run = run_of(*COMPILED, *(Lost(message=f"OSError: {n}") for n in range(50)), OK)
    run.unreadable = 3
    capture = build_report(run, Ended("ended", 0, 1.0), Target("script", "a"), []).capture
    assert capture.unreadable_lines == 3
    assert 1 <= len(capture.listener_errors) <= 20
    assert capture.listener_errors[0] == "OSError: 0"
    assert capture.events == run.count


@pytest.mark.parametrize(("gpu", "device"), [(True, "cuda"), (False, "cpu"), (None, "cuda")])
def test_a_cuda_build_is_of_the_cpu_where_the_machine_has_no_gpu(gpu: bool | None, device: str) -> None:
    """None: a recording of an earlier version does not say."""
    torch = TorchLoaded(version="2.13.0", folder=TORCH, cuda="12.8", gpu=gpu)
    report = build_report(RunLog([process(torch, *COMPILED, OK)]), Ended("ended", 0, 1.0), Target("script", "a"), [])
    assert report.environment["device"] == device


def test_a_report_of_everything_at_once_can_be_written_and_read() -> None:
    report = report_of(
        *COMPILED,
        broke([frame(12)]),
        failed([frame(30)], refused=True, id="9/0"),
        again("0/0: n == 3"),
        start("0/1"),
        end("0/1"),
        GraphSeen(id="0/1"),
        TracedSeen(id="0/0", functions=[("/m.py", "f", 3)]),
        OK,
    )
    assert from_json(to_json(report)) == report
    assert (len(report.graph_breaks), len(report.recompiles), len(report.graphs)) == (2, 1, 1)
    assert len(report.traced_hash) == 64
    assert report.graph_breaks[0].stack[0].line == MAIN.line


def test_the_users_mistake_that_only_the_child_could_see() -> None:
    assert misuse(run_of(Misused(message="no such backend"))) == "no such backend"
    assert misuse(run_of(*COMPILED)) is None
