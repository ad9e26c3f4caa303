"""Statuses and rows from hand-built records: what torch said and how the process ended decide, and nothing else."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from dynalyze.capture.events import (
    CompileStarted,
    Event,
    InPlaceFailed,
    InPlaceStarted,
    ObjectStarted,
    ProcessStarted,
    ProgramEnded,
    TargetEnded,
)
from dynalyze.capture.settings import CompileOptions, ModelOptions
from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.launch.spec import Mode, TargetSpec
from dynalyze.report import FailedStage, Graph, GraphBreak, Location, Outcome, Report, Target, TargetModel
from dynalyze.sweep.records import Item
from dynalyze.sweep.rows import ItemVerdict, after_eager, caller, judge_run, portable, row_of

SITE = "/opt/venv/lib/python3.11/site-packages"
LLAMA = f"{SITE}/transformers/models/llama/modeling_llama.py"
SHARED = f"{SITE}/transformers/utils/output_capturing.py"
OPTIONS = CompileOptions(backend="eager")


def item(mode: Mode = "library", path: str | None = None) -> Item:
    asked = ModelOptions() if mode == "library" else None
    spec = TargetSpec(mode, "hf:LlamaModel", name="LlamaModel", asked=asked, path=path)
    return Item(spec.spec, spec, OPTIONS, root="/home/ada", key="k" * 20)


def report(status: Any = "complete", message: str = "", **facts: Any) -> Report:
    stage = facts.pop("stage", None)
    outcome = Outcome(status, message, failed_stage=stage)
    return Report("0", "", [], {}, Target("transformers", "hf:LlamaModel"), outcome, **facts)


def graph() -> Graph:
    return Graph("g1", "0/0", ops=7)


def broken(file: str = LLAMA, line: int = 12, stack: tuple[Location, ...] = ()) -> GraphBreak:
    place = Location(file, line, function="forward", code="x.item()")
    return GraphBreak("b1", "GB0124", "Unsupported Tensor.item() call", "split", place, [*stack, place], "Why.")


def log(*events: Event) -> RunLog:
    return RunLog([ProcessLog(0, ProcessStarted(pid=1, main=True), list(events))])


ENDED = TargetEnded(exit_status=0)


def raised(exception: str, file: str = "/home/ada/model.py") -> TargetEnded:
    return TargetEnded(exit_status=1, exception=exception, message=f"{exception}: no", file=file, line=9)


def status(found: Report, run: RunLog, of: Item | None = None) -> str:
    return judge_run(of or item(), found, run).status


def test_nothing_compiled_is_no_full_graph() -> None:
    for found in (report("nothing_compiled", "Why not."), report()):
        verdict = judge_run(item(), found, log(ENDED))
        assert verdict.status == "compile_error"
        assert "nothing was compiled" in (verdict.error or "")


@pytest.mark.parametrize(
    ("stage", "expected"),
    [("config", "create_error"), ("model", "create_error"), ("weights", "create_error"), ("inputs", "create_error"),
     ("eager", "eager_error")],
)  # fmt: skip
def test_what_fails_before_compiling_is_no_result_of_the_compiler(stage: Any, expected: str) -> None:
    failed = FailedStage(stage, "ValueError", "ValueError: no such head", LLAMA, 7)
    found = report("failed", "It failed.", stage=failed)
    verdict = judge_run(item(), found, log(raised("ValueError")))
    assert (verdict.status, verdict.error) == (expected, f"{stage}: ValueError: no such head")
    row = row_of(item(), found, verdict)
    assert row.error_at == "transformers/models/llama/modeling_llama.py:7"


def test_a_model_that_ran_in_eager_and_fails_compiled() -> None:
    found = report("failed", "It raised.", graph_breaks=[broken()])
    assert status(found, log(CompileStarted(), raised("RuntimeError"))) == "compile_error"


def test_the_limits_come_before_everything() -> None:
    found = report(graphs=[graph()], graph_breaks=[broken()])
    late = judge_run(item(), report("timed_out", "Ended after 5 s."), log())
    assert (late.status, late.error) == ("timeout", "Ended after 5 s.")
    big = judge_run(item(), found, log(), 3 << 30)
    assert big.status == "crash"
    assert "more than 3 GiB" in (big.error or "")


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL])
def test_a_signal_is_a_crash(number: signal.Signals) -> None:
    found = report("failed", f"The program was killed by {number.name}.")
    found.outcome.exit_status = -number
    verdict = judge_run(item(), found, log(CompileStarted()))
    assert verdict.status == "crash"
    assert number.name in (verdict.error or "")
    assert ("memory runs out" in (verdict.error or "")) == (number == signal.SIGKILL)


class TestPrograms:
    def judged(self, *events: Event, mode: Mode = "script") -> ItemVerdict:
        return judge_run(item(mode), report("failed", "no"), log(*events))

    def test_one_that_fails_before_it_compiles(self) -> None:
        assert self.judged(raised("KeyError")).status == "eager_error"

    def test_an_exit_status_of_its_own(self) -> None:
        verdict = self.judged(TargetEnded(exit_status=3))
        assert (verdict.status, verdict.error) == ("eager_error", "it ended with exit status 3")

    def test_one_that_raises_by_itself_after_compiling(self) -> None:
        assert self.judged(CompileStarted(), raised("KeyError")).status == "eager_error"

    @pytest.mark.parametrize(
        "ended",
        [raised("BackendCompilerFailed"), raised("AssertionError", f"{SITE}/torch/_inductor/graph.py"),
         raised("RuntimeError", f"{SITE}/torch/_dynamo/utils.py")],
    )  # fmt: skip
    def test_one_that_the_compiler_stops(self, ended: TargetEnded) -> None:
        assert self.judged(CompileStarted(), ended).status == "compile_error"

    def test_a_call_that_fails_only_compiled(self) -> None:
        failed = InPlaceFailed("net", "Net", "IndexError: no")
        run = log(InPlaceStarted(), CompileStarted(), failed, ProgramEnded(exit_status=0), ENDED)
        verdict = judge_run(item("script"), report(graphs=[graph()]), run)
        assert (verdict.status, verdict.error) == ("compile_error", "IndexError: no")

    def test_an_object_that_cannot_be_imported_or_made(self) -> None:
        assert self.judged(raised("ImportError"), mode="object").status == "create_error"

    def test_an_object_whose_call_fails_is_asked_again_without_compiling(self) -> None:
        verdict = self.judged(ObjectStarted(calls=1), CompileStarted(), raised("RuntimeError"), mode="object")
        assert verdict.unsure
        assert after_eager(verdict, works=True).status == "compile_error"
        assert after_eager(verdict, works=False).status == "eager_error"


class TestRows:
    def test_the_contract_and_the_rest(self) -> None:
        stack = (Location("/home/ada/run.py", 3), Location(LLAMA, 80, function="forward"))
        found = report(graphs=[graph(), graph()], graph_breaks=[broken(SHARED, 228, stack)])
        found.target.model, found.outcome.seconds = TargetModel("LlamaModel", "llama", 1000), 1.235
        row = row_of(item(), found, judge_run(item(), found, log(ENDED)), 5 << 20)
        assert (row.target, row.status, row.graph_breaks, row.recompiles) == ("hf:LlamaModel", "graph_break", 1, 0)
        assert (row.seconds, row.report, row.error) == (1.235, None, None)
        assert (row.family, row.class_name, row.parameters, row.graphs, row.ops) == ("llama", "LlamaModel", 1000, 2, 14)
        [seen] = row.breaks
        assert (seen.path, seen.line) == ("transformers/utils/output_capturing.py", 228)
        assert seen.caller == "transformers/models/llama/modeling_llama.py:80"
        assert (seen.reason, seen.gb_id, seen.effect, seen.code) == ("Why.", "GB0124", "split", "x.item()")

    def test_a_break_on_the_models_own_line_has_no_caller(self) -> None:
        assert caller(broken(LLAMA, 12, (Location(LLAMA, 80),)), "", None) == ""

    def test_the_own_line_of_a_file_of_the_users(self) -> None:
        found = broken("/home/ada/tools/maths.py", 5, (Location("/home/ada/net.py", 7), Location("/home/ada/x.py", 1)))
        assert caller(found, "/home/ada", "/home/ada/net.py") == "net.py:7"

    def test_errors_are_one_line_of_bounded_length(self) -> None:
        found = report("failed")
        row = row_of(item(), found, ItemVerdict("eager_error", "one\n  two " + "x" * 900))
        assert row.error is not None
        assert row.error.startswith("one two xx")
        assert len(row.error) == 500


class TestPlaces:
    @pytest.mark.parametrize(
        ("file", "expected"),
        [
            (LLAMA, "transformers/models/llama/modeling_llama.py"),
            ("/usr/lib/python3/dist-packages/numpy/core/x.py", "numpy/core/x.py"),
            ("/usr/lib/python3.12/contextlib.py", "python3.12/contextlib.py"),
            ("/home/ada/ranker/model.py", "ranker/model.py"),
            ("/srv/elsewhere/model.py", "model.py"),
            ("<string>", "<string>"),
        ],
    )
    def test_equal_on_every_machine(self, file: str, expected: str) -> None:
        assert portable(file, "/home/ada") == expected

    def test_a_package_of_the_users_is_named_from_its_top(self, tmp_path: Path) -> None:
        inner = tmp_path / "ranker" / "layers"
        inner.mkdir(parents=True)
        for folder in (tmp_path / "ranker", inner):
            (folder / "__init__.py").touch()
        assert portable(str(inner / "mlp.py"), "/home/ada") == "ranker/layers/mlp.py"
