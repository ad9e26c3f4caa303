"""What is said of wrong answers, of operations and custom operators behind them, and of what could not be compared."""

from __future__ import annotations

import pytest

from dynalyze.render.view.accuracy import accuracy_view
from dynalyze.render.view.links import Anchors
from dynalyze.report import Location, Outcome, Report, Target
from dynalyze.report.audit import AskingPlace, Bisection, OperatorCheck, OperatorProblem, StageRun
from dynalyze.report.measurements import Accuracy, AccuracyVerdict, BrokenContract, InputVariant, TensorAccuracy
from dynalyze.rules.diagnoses.accuracy import custom_operator
from dynalyze.rules.rule import judge
from sample_reports import empty_report, found_by


def _report(verdict: AccuracyVerdict, *found: Bisection, nonfinite: int = 0, reason: str = "") -> Report:
    report = Report("0", "", [], {}, Target("script", "net.py"), Outcome("complete"))
    tensor = TensorAccuracy("logits", "output", verdict, dtype="bfloat16", nonfinite=nonfinite)
    report.accuracy = [Accuracy("default", verdict=verdict, reason=reason, tensors=[tensor])]
    report.bisections = list(found)
    return report


def _found(**fields: object) -> Bisection:
    stages = [StageRun("dynamo", "eager", "equal"), StageRun("inductor", "inductor", "suspicious", 0.25)]
    known: dict[str, object] = {
        "stage": "inductor", "module": "layers.3", "module_class": "Block", "op": "torch.softmax", "file": "net.py",
        "line": 12, "repro": "dynalyze-reports/net.repro.py", "stages": stages, "why": "its error is 0.3",
    }  # fmt: skip
    return Bisection("default", **{**known, **fields})  # type: ignore[arg-type]


def _rules(report: Report) -> list[str]:
    return [finding.rule for finding in judge(report) if finding.rule.startswith(("accuracy", "compile-makes"))]


@pytest.mark.parametrize("verdict", ["equal", "benign", "rounding only"])
def test_rounding_is_never_called_wrong(verdict: AccuracyVerdict) -> None:
    assert _rules(_report(verdict)) == []


def test_wrong_answers_name_stage_module_operation_line_and_script() -> None:
    (finding,) = found_by(_report("suspicious", _found()), "accuracy-suspicious")
    assert finding.severity == "error"
    assert finding.title == (
        "default, forward: bf16 output of torch.softmax in layers.3 is wrong beyond rounding, stage: Inductor"
    )
    assert finding.location is not None and (finding.location.file, finding.location.line) == ("net.py", 12)
    assert "python dynalyze-reports/net.repro.py" in finding.advice
    assert finding.detail is not None and "its error is 0.3" in finding.detail.why


def test_a_broken_contract_is_told_where_no_number_is_wrong() -> None:
    report = _report("suspicious")
    equal = TensorAccuracy("logits", "output", "equal")
    stride = BrokenContract("stride", "output", "has stride (1, 2)", "has stride (3, 1)")
    report.accuracy = [Accuracy("default", verdict="suspicious", tensors=[equal], contracts=[stride])]
    (finding,) = found_by(report, "accuracy-suspicious")
    assert finding.title == "default, forward: output has stride (3, 1), while in eager it has stride (1, 2)"
    (row,) = accuracy_view(report, Anchors()).items
    assert row.contracts.items == [stride]


def test_an_exception_that_compiled_does_not_raise_is_told_with_the_stage() -> None:
    report = _report("suspicious", _found(op="", module=""))
    refused = BrokenContract("exception", "A call", "ValueError: too large", "gives an answer")
    report.accuracy = [Accuracy("default", verdict="suspicious", reason="Eager refuses it.", contracts=[refused])]
    (finding,) = found_by(report, "accuracy-suspicious")
    assert finding.title == (
        "default, forward: compiled gives an answer where eager raises ValueError: too large, stage: Inductor"
    )
    assert accuracy_view(report, Anchors()).items[0].notes == ["Eager refuses it."]


def test_nan_that_compiling_makes_is_an_error_of_its_own() -> None:
    report = _report("suspicious", _found(), nonfinite=3)
    assert _rules(report) == ["compile-makes-nan"]
    (finding,) = found_by(report, "compile-makes-nan")
    assert finding.severity == "error" and "3 values of logits are NaN or infinite" in finding.advice
    assert finding.title == (
        "default, forward: bf16 output of torch.softmax in layers.3 is NaN or infinite where eager's is not, "
        "stage: Inductor"
    )


_MASK = AskingPlace("lib/transformers/masking_utils.py", 295, "_ignore_causal_mask_sdpa", "if is_tracing(mask):")


def test_what_the_program_does_otherwise_is_no_fault_of_the_compiler() -> None:
    own = _found(stage="program", op="", module="", repro="", file="net.py", line=3)
    own.asks = [AskingPlace("net.py", 3, "forward", "if is_compiling():")]
    (finding,) = [each for each in judge(_report("suspicious", own)) if each.rule.startswith("accuracy")]
    assert (finding.rule, finding.severity) == ("accuracy-program", "error")
    assert finding.title.endswith("because net.py:3 asks whether it is compiled")
    assert finding.advice.startswith("The compiler is not at fault: the program takes another branch")
    assert finding.advice.endswith(
        "both branches of forward (net.py:3) compute the same, or take the question out of it."
    )
    assert finding.location is not None and finding.location.code == "if is_compiling():"
    assert finding.detail is not None
    assert "`if is_compiling():`" in finding.detail.why
    (row,) = accuracy_view(_report("suspicious", own), Anchors()).items
    facts = dict(row.searched[0].facts)
    assert facts["Stage"] == "the program's own code"
    assert facts["Asks whether it is compiled"] == "net.py:3 if is_compiling():"
    own.asks = [_MASK]
    (finding,) = [each for each in judge(_report("suspicious", own)) if each.rule.startswith("accuracy")]
    assert 'attn_implementation="eager"' in finding.advice


def test_inputs_that_were_varied_are_one_warning_and_those_that_eager_refuses_none() -> None:
    report = _report("equal")
    report.accuracy[0].variants = [InputVariant("batch 0", "left out", "RuntimeError"), InputVariant("NaN", "equal")]
    assert _rules(report) == []
    report.accuracy[0].variants += [
        InputVariant(name, "suspicious", "It is wrong.") for name in ("expanded", "batch 7")
    ]
    (finding,) = [each for each in judge(report) if each.rule.startswith("accuracy")]
    assert (finding.rule, finding.severity) == ("accuracy-inputs", "warning")
    assert finding.title.endswith("expanded and batch 7") and finding.detail and "It is wrong." in finding.detail.why


def test_what_could_not_be_compared_says_why() -> None:
    (finding,) = [
        each
        for each in judge(_report("not comparable", reason="Compiled draws other random numbers than eager."))
        if each.rule.startswith("accuracy")
    ]
    assert (finding.rule, finding.severity) == ("accuracy-not-comparable", "info")
    assert "other random numbers" in finding.advice and "model.eval()" in finding.advice


PLACE = Location("/m.py", 7, function="forward")
STRIDES = "MetadataMismatchError: Stride mismatch! Strides are (1, 3) and (4, 1)"


def test_a_fake_unlike_the_kernel_is_an_error_with_its_place_and_torch_s_words() -> None:
    report = empty_report()
    traced = OperatorProblem("test_aot_dispatch_dynamic", "AssertionError: outputs differ")
    report.operators = [
        OperatorCheck("mine::twice", PLACE, 2, [traced, OperatorProblem("test_faketensor", STRIDES)]),
        OperatorCheck("mine::good", PLACE, 2),
        OperatorCheck("mine::late", PLACE, reason="60 s were over"),
    ]
    (found,) = found_by(report, custom_operator.id)
    assert (found.severity, found.location) == ("error", PLACE)
    assert found.title.startswith("mine::twice: ")
    assert "register_fake" in found.advice  # The cause, and not what it comes to when it is traced.
    assert found.detail is not None and STRIDES in found.detail.why
