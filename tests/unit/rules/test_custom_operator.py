"""The rule on custom operators, on what opcheck said of them."""

from __future__ import annotations

from dynalyze.report import Location
from dynalyze.report.audit import OperatorCheck, OperatorProblem
from dynalyze.rules.diagnoses.accuracy import custom_operator
from dynalyze.rules.rule import judge
from sample_reports import empty_report

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
    (found,) = [each for each in judge(report) if each.rule == custom_operator.id]
    assert (found.severity, found.location) == ("error", PLACE)
    assert found.title.startswith("mine::twice: ")
    assert "register_fake" in found.advice  # The cause, and not what it comes to when it is traced.
    assert found.detail is not None and STRIDES in found.detail.why
