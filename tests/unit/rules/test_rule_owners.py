"""One root cause, one finding: breaks and recompiles with a rule of their own are not told a second time."""

from __future__ import annotations

from typing import Any

import pytest

from dynalyze.report import Compilation, Effect, Finding, Graph, GraphBreak, Location, Region, Report
from dynalyze.report.measurements import Measurement
from dynalyze.report.models import AttentionCall, AttentionInput, LayerGroup, ModuleFacts
from dynalyze.rules.rule import judge, reaches
from sample_reports import empty_report, found_by, recompile

SITE = "/opt/venv/lib/python3.11/site-packages"
USER = Location("/home/ada/serve.py", 31, function="answer", code="model(**batch)")
FLASH = "transformers/modeling_flash_attention_utils.py"
LAYER = "transformers/integrations/flash_attention.py"
BUILTIN = "Dynamo does not know how to trace the builtin `flash_attn_2_cuda.PyCapsule.fwd.`"
BREAKS: list[tuple[str, dict[str, Any]]] = [
    ("flash-attention-padding", {"path": FLASH, "function": "_get_unpad_data", "gb_type": "Dynamic shape operator"}),
    ("flash-attention-padding", {"path": "transformers/masking_utils.py", "function": "flash_attention_mask",
                                 "gb_type": "Data-dependent branching"}),
    ("flash-attention-padding", {"path": FLASH, "function": "_flash_attention_forward",
                                 "gb_type": "Data-dependent branching"}),
    ("flash-attention-builtin", {"path": "flash_attn/flash_attn_interface.py", "explanation": BUILTIN}),
    ("bitsandbytes-int8-threshold", {"path": "bitsandbytes/functional.py",
                                     "context": "bitsandbytes.int8_vectorwise_quant.default"}),
    ("bitsandbytes-breaks", {"path": "bitsandbytes/nn/modules.py"}),
    ("torchao", {"path": "torchao/quantization/utils.py"}),
    ("other-quantiser", {"path": "hqq/core/quantize.py"}),
]  # fmt: skip


def broke(
    path: str, function: str = "forward", gb_type: str = "Unsupported", effect: Effect = "split", **more: Any
) -> GraphBreak:
    place = Location(f"{SITE}/{path}", 396, function=function)
    return GraphBreak("b1", None, gb_type, effect, place, [USER, place], **more)


def report_of(*breaks: GraphBreak) -> Report:
    report = empty_report()
    report.graph_breaks = list(breaks)
    layers = [LayerGroup("hqq", "HQQLinear", 4)]
    report.modules = [ModuleFacts("m1", "Llama", file=USER.file, line=7, layers=layers)]
    return report


def only(report: Report) -> Finding:
    (finding,) = judge(report)
    return finding


@pytest.mark.parametrize(("rule", "fields"), BREAKS, ids=[f"{rule}-{f['path']}" for rule, f in BREAKS])
@pytest.mark.parametrize(("effect", "severity"), [("split", "warning"), ("error", "error")])
def test_a_break_is_told_by_its_rule_alone(rule: str, fields: dict[str, Any], effect: Effect, severity: str) -> None:
    finding = only(report_of(broke(**fields, effect=effect)))
    assert (finding.rule, finding.evidence, finding.severity) == (rule, ["b1"], severity)
    assert reaches([finding], "graph-break") and reaches([finding], rule) and not reaches([finding], "all-eager")


def test_a_comprehension_by_itself_is_a_consequence() -> None:
    found = broke("transformers/utils/output_capturing.py", "<dictcomp>", "Missing tp_iternext", "eager")
    found.compile_ids = ["5/0"]
    report = report_of(found)
    alone = Compilation("5/0", found.process, found.epoch, USER, "eager", function="<dictcomp>")
    report.compilations = [Compilation("4/0", 0, 0, USER, "compiled"), alone]
    told = next(each for each in judge(report) if each.evidence == ["b1"])
    assert (told.rule, told.severity) == ("comprehension-apart", "info") and reaches([told], "graph-break")
    alone.function = "forward"
    told = next(each for each in judge(report) if each.evidence == ["b1"])
    assert told.rule == "graph-break", "in a function of the program it is a break like any other"


@pytest.mark.parametrize(("function", "known"), [("_get_unpad_data", True), ("step", False)])
def test_parts_to_compile_come_first_where_no_rule_knows_a_way_out(function: str, known: bool) -> None:
    """Whatever else runs in eager because of the break: a comprehension compiled alone is no break of its own."""
    beside = broke("transformers/utils/output_capturing.py", "<dictcomp>", "Missing tp_iternext", "eager")
    beside.id, beside.compile_ids = "b2", ["5/0"]
    report = report_of(broke("solvers/step.py", function, "Dynamic shape operator"), beside)
    alone = Compilation("5/0", beside.process, beside.epoch, USER, "eager", function="<dictcomp>")
    report.compilations = [Compilation("4/0", 0, 0, USER, "compiled"), alone]
    report.regions = [Region("model", "mlp", share=0.5)]
    rules = [each.rule for each in judge(report)]
    assert (rules[0] == "compile-a-part") is not known and "compile-a-part" in rules


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("torchao", {"path": "torchao/prototype/hqq/core.py"}),
        ("flash-attention-builtin", {"path": FLASH, "gb_type": "Dynamic shape operator", "explanation": BUILTIN}),
        ("bitsandbytes-breaks", {"path": "bitsandbytes/nn/modules.py", "gb_type": "Missing tp_iternext"}),
    ],
)
def test_a_break_that_two_rules_claim_is_told_once(rule: str, fields: dict[str, Any]) -> None:
    found = broke(**fields, function="<listcomp>")
    found.compile_ids = ["5/0"]
    report = report_of(found)
    report.compilations = [Compilation("5/0", found.process, found.epoch, USER, "compiled", function="<listcomp>")]
    told = [each.rule for each in judge(report) if "b1" in each.evidence]
    assert told == [rule]


@pytest.mark.parametrize(("path", "source"), [(LAYER, "module.layer_idx"), (FLASH, "kwargs['layer_idx']")])
def test_what_a_break_in_each_layer_compiles_again_belongs_to_it(path: str, source: str) -> None:
    report = report_of(broke(FLASH, function="_get_unpad_data", gb_type="Dynamic shape operator"))
    place = Location(f"{SITE}/{path}", 20, function="flash_attention_forward")
    report.recompiles = [recompile("r1", "0/1", source=source, cause="value", location=place, seconds=0.5)]
    finding = only(report)
    assert (finding.rule, finding.evidence) == ("flash-attention-padding", ["b1", "r1"])
    assert finding.impact is not None and finding.impact.compile_seconds == 0.5
    assert reaches([finding], "recompile")
    report.graph_breaks = []
    assert only(report).rule == "recompile"


# Where it is.


def test_a_recompile_in_a_library_stands_where_the_program_called_it() -> None:
    report = report_of()
    place = Location(f"{SITE}/transformers/utils/generic.py", 938, function="Llama.wrapper")
    lead = recompile("r1", "0/2", source="kwargs['past_key_values'].layers[0].keys", cause="shape", location=place)
    report.recompiles = [lead]
    assert only(report).location == Location(USER.file, 7), "the call of torch.compile with that class"
    called = Compilation("0/2", lead.process, lead.epoch, place, "compiled", caller=USER)
    report.compilations = [called]
    assert only(report).location == USER
    called.caller = place
    report.modules = []
    assert only(report).location == place, "nothing of the program's is known"


def test_attention_in_a_library_stands_at_the_programs_own_function() -> None:
    wide = AttentionInput("float32", [1, 8, 2, 64])
    call = AttentionCall(
        "a1", "g1", "flash_attn", "external", f"{SITE}/flash_attn/flash_attn_interface.py", 80,
        query=wide, key=wide, value=wide,
    )  # fmt: skip
    report = empty_report()
    report.attention, report.graphs = [call], [Graph("g1", "0/0", location=USER)]
    assert only(report).location == USER
    report.graphs = []
    assert only(report).location == Location(call.file, 80, function="")


# CUDA graphs.

OVERWRITTEN = (
    "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. Stack "
    'trace: File "/home/ada/serve.py", line 9, in run\n    y = f(x)\n  File "/home/ada/net.py", line 4, in forward\n'
    "    return x + 1. To prevent overwriting, clone the tensor"
)


def test_an_overwritten_output_is_known_by_what_torch_says() -> None:
    report = empty_report("failed", OVERWRITTEN)
    (finding,) = found_by(report, "cudagraph-overwritten")
    assert finding.severity == "error" and ".clone()" in finding.advice
    assert finding.location == Location("/home/ada/net.py", 4, function="forward")
    gradient = OVERWRITTEN.replace("accessing tensor", "accessing gradient tensor")
    report.outcome.message = ""
    report.measurements = [Measurement("reduce-overhead", "forward", "failed", gradient)]
    (finding,) = found_by(report, "cudagraph-overwritten")
    assert "p.grad" in finding.advice and finding.evidence == ["reduce-overhead"]


def test_an_overwritten_output_of_no_known_line_is_where_it_was_read() -> None:
    report = empty_report("failed", OVERWRITTEN.partition("Stack")[0])
    report.outcome.raised_at = Location("/home/ada/serve.py", 12)
    (finding,) = found_by(report, "cudagraph-overwritten")
    assert finding.location == report.outcome.raised_at
