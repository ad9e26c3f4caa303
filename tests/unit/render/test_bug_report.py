"""The report for PyTorch's tracker: what went wrong, once each, inert, and runnable again."""

from __future__ import annotations

from dynalyze.render.bug_report import render
from dynalyze.report import Compilation, GraphBreak, Location
from dynalyze.report.audit import Bisection, StageRun
from dynalyze.report.measurements import Accuracy, TensorAccuracy
from sample_reports import empty_report, rich_report

PLACE = Location("/home/ada/model.py", 12, 8, "forward", "print(h)", 16)


def broken(identity: str, line: int, **more: object) -> GraphBreak:
    place = Location("/home/ada/model.py", line, None, "forward", "print(h)")
    fields = {"explanation": "Dynamo does not know print.", "context": "builtin print", **more}
    return GraphBreak(identity, "GB0059", "Failed to trace builtin operator", "split", place, [place], **fields)  # type: ignore[arg-type]


def test_breaks_of_one_reason_are_told_once() -> None:
    report = empty_report()
    report.graph_breaks = [broken("b1", 12), broken("b2", 30), broken("b3", 31)]
    text = render(report)
    assert text.startswith("Title: [dynamo] graph break: Failed to trace builtin operator\n")
    assert text.count("**Graph break**") == 1
    assert "<code>model.py:12</code>, and at 2 further lines" in text
    assert "builtin print\nDynamo does not know print." in text


def test_a_failed_compile_has_the_compilers_message_once() -> None:
    report = empty_report()
    reason = "InductorError: CppCompileError: C++ compile error\n```evil```"
    report.compilations = [Compilation(f"0/{number}", 0, 0, PLACE, "failed", reason=reason) for number in range(3)]
    text = render(report)
    assert text.startswith("Title: [torch.compile] InductorError: CppCompileError: C++ compile error\n")
    assert "**A compile failed** (3 compiles) at <code>model.py:12</code>" in text
    assert f"````text\n{reason}\n````" in text


def test_a_refusal_under_fullgraph_is_told_as_its_break() -> None:
    report = empty_report()
    report.compilations = [Compilation("0/0", 0, 0, PLACE, "failed", reason="Unsupported", breaks=["b1"])]
    report.graph_breaks = [broken("b1", 12, compile_ids=["0/0"])]
    report.graph_breaks[0].effect = "error"
    text = render(report)
    assert "A compile failed" not in text
    assert "compilation fails under fullgraph" in text


def test_wrong_answers_come_first_with_what_the_search_found() -> None:
    report = rich_report()
    tensor = TensorAccuracy("logits", "output", "suspicious")
    report.accuracy = [Accuracy("default", "forward", "suspicious", reason="4 times", tensors=[tensor])]
    report.bisections = [
        Bisection(
            "default", stage="inductor", module="layers.3", op="aten.mul.Tensor", repro="/tmp/repro --> x.py",
            eager_rmse=1e-3, compiled_rmse=4e-2, stages=[StageRun("inductor", "inductor", "suspicious")],
        )
    ]  # fmt: skip
    text = render(report)
    assert text.startswith("Title: [torch.compile] compiled results are wrong beyond rounding\n")
    assert text.index("Wrong answers") < text.index("Graph break")
    for part in ("- first wrong at: Inductor", "<code>layers.3</code>", "0.001 in eager, 0.04 compiled"):
        assert part in text
    (comment,) = [line for line in text.splitlines() if "runs alone" in line]
    assert comment.count("--") == 2  # Its own two ends.
