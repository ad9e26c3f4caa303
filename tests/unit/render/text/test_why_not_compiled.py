"""The model of an `hf:` target in a report: what was built, and why it never came to be compiled."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.events import (
    EagerCall,
    ModelBuilt,
    ObjectCall,
    ObjectStarted,
    StageFailed,
    TargetEnded,
)
from dynalyze.facts.build import Ended, build_report
from dynalyze.privacy import showable
from dynalyze.render import html, terminal
from dynalyze.render.text.report import trust_notes, verdict
from dynalyze.render.view.page import Page
from dynalyze.report import Report, Target, TargetModel
from dynalyze.report.document import from_json, to_json
from records import end, run_of, start

BUILT = ModelBuilt(
    class_name="LlamaModel", family="llama", parameters=1234, inputs={"input_ids": "int64[2, 16]"}, notes=["Small."]
)
MODELING = "/venv/site-packages/transformers/models/llama/modeling_llama.py"
BROKEN = StageFailed(stage="model", exception="ValueError", message="ValueError: no heads", file=MODELING, line=12)
FAILED = TargetEnded(exit_status=1, exception="ValueError", message="ValueError: no heads", file="/x.py", line=3)


def report_of(*events: Any, reason: str = "ended", status: int | None = 0) -> Report:
    return build_report(
        run_of(*events), Ended(reason, status, 4.0), Target("transformers", "hf:llama"), ["explain", "hf:llama"]
    )


def test_a_model_that_was_compiled() -> None:
    started = ObjectStarted(calls=1, notes=["decode: batch 2."])
    report = report_of(
        BUILT, EagerCall(seconds=0.25), started, start(), end(), ObjectCall(), TargetEnded(exit_status=0)
    )
    assert report.outcome.status == "complete"
    assert report.outcome.failed_stage is None
    assert report.target.model == TargetModel(
        "LlamaModel", "llama", 1234, {"input_ids": "int64[2, 16]"}, warm=True, eager_seconds=0.25
    )
    assert (report.capture.mode, report.capture.replayed_calls) == ("transformers", 1)
    assert trust_notes(report) == [
        "LlamaModel (llama) with 1,234 parameters, called with input_ids int64[2, 16]. "
        "It ran once in eager before it was compiled (0.25 s).",
        "Small.",
        "decode: batch 2.",
    ]
    assert from_json(to_json(report)) == report


def test_a_model_that_could_not_be_built() -> None:
    says = "llama could not be built: ValueError: no heads (modeling_llama.py:12)."
    report = report_of(BROKEN, FAILED, status=1)
    assert (report.outcome.status, report.outcome.exit_status) == ("failed", 1)
    assert report.outcome.message == says
    assert report.outcome.failed_stage is not None
    assert report.outcome.failed_stage.stage == "model"
    assert verdict(report) == f"{says} Nothing was compiled: this is no result of torch.compile."
    assert report.target.model is None


def test_a_model_that_fails_in_eager() -> None:
    failed = StageFailed(stage="eager", message="ValueError: odd", file=MODELING, line=7)
    report = report_of(BUILT, failed, FAILED, status=1)
    assert report.outcome.message == "LlamaModel fails in eager already: ValueError: odd (modeling_llama.py:7)."
    memory = StageFailed(stage="eager", message="OutOfMemoryError: CUDA", out_of_memory=True)
    assert report_of(BUILT, memory, FAILED, status=1).outcome.message.startswith(
        "LlamaModel runs out of memory in eager already: "
    )


def test_no_output_of_a_failed_build_talks_of_compiles_or_quotes_it_unasked() -> None:
    report = showable(report_of(BROKEN, FAILED, status=1), no_source=False, redact=False, show_values=False)
    assert report.findings == []
    for text in (terminal.render(report, width=400), html.render(report)):
        assert "no result of torch.compile" in text
        assert "could not be built: ValueError: no heads" in text
    page = Page(report)
    assert page.metrics == []  # Nothing was counted, so there is no zero to show.
    assert page.verdict.message == ""  # The headline says it.
    bare = to_json(showable(report_of(BROKEN, FAILED, status=1), no_source=True, redact=False, show_values=False))
    assert "no heads" not in bare


def test_a_death_says_what_was_going_on() -> None:
    assert report_of(status=-9).outcome.message == ("The program was killed by SIGKILL while llama was being built.")
    assert report_of(BUILT, status=-11).outcome.message == (
        "The program was killed by SIGSEGV while LlamaModel ran in eager."
    )
    late = report_of(BUILT, reason="timed_out", status=None)
    assert late.outcome.status == "timed_out"
    assert late.outcome.message == "Ended after 4 s, the limit of --timeout, while LlamaModel ran in eager."
