"""The diagnoses about attention, on records written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from dynalyze.report import Compilation, Finding, Graph, GraphBreak, Location, Recompile, Report
from dynalyze.report.models import AttentionBackend, AttentionCall, AttentionInput, ModuleFacts
from sample_reports import empty_report, found_by

SITE = "/opt/venv/lib/python3.11/site-packages"
FLASH = f"{SITE}/transformers/modeling_flash_attention_utils.py"
MASKS = f"{SITE}/transformers/masking_utils.py"
USER = Location("/home/ada/serve.py", 31, function="answer", code="model(**batch)")
REFUSED = "RuntimeError: FlashAttention only support fp16 and bf16 data type"
BUILTIN = "Dynamo does not know how to trace the builtin `flash_attn_2_cuda.PyCapsule.fwd.` This function is either"


def only(report: Report, rule: str) -> Finding:
    (finding,) = found_by(report, rule)
    assert finding.detail is not None and finding.detail.why
    return finding


def tensor(*shape: int | str, dtype: str = "float16", stride: list[int | str] | None = None) -> AttentionInput:
    return AttentionInput(dtype, list(shape), stride or [])


def sdpa(backend: AttentionBackend = "flash", device: str = "cuda:0", **more: Any) -> AttentionCall:
    like = tensor(2, 8, 128, 64)
    fields: dict[str, Any] = {"query": like, "key": like, "value": like, "file": USER.file, "line": 12}
    return AttentionCall("a1", "g1", "sdpa", backend, device=device, **{**fields, **more})


def flash(query: str = "bfloat16", value: str = "bfloat16") -> AttentionCall:
    key, last = tensor(2, 128, 8, 64, dtype=query), tensor(2, 128, 8, 64, dtype=value)
    return AttentionCall("a1", "g1", "flash_attn", "external", USER.file, 12, query=key, key=key, value=last)


def module(attention: str = "flash_attention_2", dtype: str = "bfloat16", **more: Any) -> ModuleFacts:
    return ModuleFacts("m1", "LlamaForCausalLM", attention=attention, parameters={dtype: 1000}, **more)


def broke(identity: str, file: str, function: str, gb_type: str, **more: Any) -> GraphBreak:
    place = Location(file, 396, function=function)
    return GraphBreak(identity, None, gb_type, "split", place, [USER, place], **more)


def with_attention(*calls: AttentionCall) -> Report:
    report = empty_report()
    report.attention = list(calls)
    return report


# FlashAttention and padding.

NONZERO = broke("b2", FLASH, "_get_unpad_data", "Dynamic shape operator")
ITEM = broke("b3", FLASH, "_get_unpad_data", "Unsupported Tensor.item() call with capture_scalar_outputs=False")
ASKS = broke("b1", MASKS, "flash_attention_mask", "Data-dependent branching")


def test_breaks_over_padding_are_one_finding_at_the_users_line() -> None:
    report = empty_report()
    report.graph_breaks = [ASKS, NONZERO, ITEM]
    report.modules = [module()]
    report.settings = {"torch._dynamo.config.capture_scalar_outputs": True}
    finding = only(report, "flash-attention-padding")
    assert finding.location == USER
    assert finding.evidence == ["b1", "b2", "b3"]
    assert finding.title.endswith("3 graph breaks")
    assert "`flash_attention_2`" in finding.advice and "cu_seq_lens_q" in finding.advice and "sdpa" in finding.advice
    assert finding.detail is not None
    assert finding.detail.config == "torch._dynamo.config.capture_dynamic_output_shape_ops = True"
    assert "Leave the `.item()` where it is" in finding.detail.config_note
    assert "stays a break" in finding.detail.config_note


def test_other_breaks_in_that_file_are_no_padding() -> None:
    report = empty_report()
    report.graph_breaks = [
        broke("b1", FLASH, "fa_peft_integration_check", "logging.Logger method not supported for non-export cases"),
        broke("b2", USER.file, "forward", "Dynamic shape operator"),
    ]
    assert found_by(report, "flash-attention-padding") == []


# flash-attn without operators.


@pytest.mark.parametrize(
    ("installed", "advice"),
    [
        ({"flash-attn": "2.5.8"}, "Install flash-attn 2.7 or later (2.5.8 is installed)"),
        ({"flash-attn": "2.8.3"}, "flash-attn 2.8.3 registers operators: call its own"),
        ({}, "Install flash-attn 2.7 or later, which"),
    ],
)
def test_a_builtin_of_flash_attn(installed: dict[str, str], advice: str) -> None:
    report = empty_report()
    report.environment["packages"] = installed
    report.graph_breaks = [broke("b1", USER.file, "attend", "Attempted to call function", explanation=BUILTIN)]
    finding = only(report, "flash-attention-builtin")
    assert finding.advice.startswith(advice)
    assert (finding.evidence, finding.title) == (["b1"], "The kernels of flash_attn_2_cuda cannot be in a graph")


# float32.


def test_a_refusal_of_float32_is_an_error() -> None:
    report = with_attention(flash("float32", "float32"))
    report.outcome.message = f"The program raised {REFUSED} at x.py:3"
    finding = only(report, "flash-attention-float32")
    assert (finding.severity, finding.evidence) == ("error", ["a1"])
    assert "bfloat16" in finding.advice


def test_float32_parameters_are_read_from_the_configuration() -> None:
    report = empty_report()
    report.modules = [module(dtype="float32", file="/home/ada/serve.py", line=9)]
    finding = only(report, "flash-attention-float32")
    assert finding.detail is not None and finding.detail.why.startswith("Read from the configuration")
    assert (finding.evidence, finding.location) == (["m1"], Location("/home/ada/serve.py", 9))
    assert "flash_attention_2" in finding.advice


def test_where_float32_parameters_are_fine() -> None:
    report = with_attention(flash())  # Under autocast.
    report.modules = [module(dtype="float32")]
    assert found_by(report, "flash-attention-float32") == []
    report = empty_report()
    report.modules = [module(), module("sdpa", "float32")]
    assert found_by(report, "flash-attention-float32") == []


# Different types.


def mixed(torch: str) -> Report:
    report = with_attention(flash("float32", "bfloat16"))
    report.environment["torch"] = torch
    report.graphs = [Graph("g1", "0/0", histogram={"rms_norm": 2})]
    return report


def test_a_norm_that_leaves_float32() -> None:
    finding = only(mixed("2.12.1"), "attention-mixed-dtypes")
    assert finding.title == "FlashAttention is given query in float32, key in float32, value in bfloat16"
    assert "Cast query and key to value's bfloat16" in finding.advice
    assert finding.detail is not None and "autocast computes in float32" in finding.detail.why


def test_a_value_in_float32_is_cast_and_not_query_and_key() -> None:
    """flash-attn has no kernel for float32: the half of them wins, and the model need not be loaded in another type."""
    report = with_attention(flash("bfloat16", "float32"))
    assert "Cast value to key's bfloat16" in only(report, "attention-mixed-dtypes").advice
    assert found_by(report, "flash-attention-float32") == []
    assert found_by(with_attention(flash("float32", "float32")), "flash-attention-float32") != []


def test_one_type_or_attention_of_pytorch_is_fine() -> None:
    own = sdpa(query=tensor(1, dtype="float32"), value=tensor(1, dtype="bfloat16"))
    assert found_by(with_attention(flash(), own), "attention-mixed-dtypes") == []


# The GPU.


def on_gpu(*capability: int) -> Report:
    report = empty_report()
    report.modules = [module()]
    report.settings = {"torch.cuda.get_device_capability": list(capability), "torch.cuda.get_device_name": "Tesla T4"}
    return report


@pytest.mark.parametrize(
    ("attention", "capability", "needs"),
    [
        ("flash_attention_2", (7, 5), "8.0 (Ampere)"),
        ("flash_attention_3", (7, 5), "8.0 (Ampere)"),
        ("flash_attention_4", (8, 9), "9.0 (Hopper)"),
        ("kernels-community/flash-attn3", (7, 0), "8.0 (Ampere)"),
    ],
)
def test_a_gpu_older_than_the_kernels(attention: str, capability: tuple[int, int], needs: str) -> None:
    report = on_gpu(*capability)
    report.modules = [module(attention)]
    finding = only(report, "flash-attention-device")
    assert finding.title.endswith(f"Tesla T4 (compute capability {capability[0]}.{capability[1]})")
    assert finding.detail is not None and needs in finding.detail.why
    assert "sdpa" in finding.advice and finding.evidence == ["m1"]


# Masks.


def test_a_mask_with_odd_rows() -> None:
    report = with_attention(sdpa("efficient", mask=tensor(2, 1, 77, 77, stride=[5929, 5929, 77, 1])))
    finding = only(report, "attention-mask-alignment")
    assert "80 keys wide" in finding.advice and "mask[..., :77]" in finding.advice


@pytest.mark.parametrize(
    ("device", "mask"),
    [
        ("cuda:0", tensor(2, 1, 80, 80, stride=[6400, 6400, 80, 1])),
        ("cuda:0", tensor(2, 1, 77, 77, stride=[6160, 6160, 80, 1])),
        ("cuda:0", tensor(2, 1, "s7", "s7", stride=["s7**2", "s7**2", "s7", 1])),
        ("cpu", tensor(2, 1, 77, 77, stride=[5929, 5929, 77, 1])),
        ("cuda:0", None),
    ],
)
def test_an_aligned_or_unknown_mask_is_fine(device: str, mask: AttentionInput | None) -> None:
    assert found_by(with_attention(sdpa("efficient", device, mask=mask)), "attention-mask-alignment") == []


def test_a_boolean_mask_on_cuda() -> None:
    mask = tensor(2, 1, 128, 128, dtype="bool")
    assert "float16 mask once" in only(with_attention(sdpa("efficient", mask=mask)), "sdpa-bool-mask").advice
    assert found_by(with_attention(sdpa("cpu_flash", "cpu", mask=mask)), "sdpa-bool-mask") == []
    assert found_by(with_attention(sdpa("efficient", mask=tensor(2, 1, 128, 128))), "sdpa-bool-mask") == []


# Fallback to single operations.


def reason(report: Report) -> tuple[str, str]:
    finding = only(report, "sdpa-math")
    assert finding.detail is not None
    return finding.severity, finding.detail.why


def test_math_that_a_switch_leads_to() -> None:
    report = with_attention(sdpa("math"))
    names = ("flash_sdp_enabled", "mem_efficient_sdp_enabled", "cudnn_sdp_enabled")
    report.settings = {f"torch.backends.cuda.{name}": False for name in names}
    assert "torch.backends.cuda.flash_sdp_enabled() is False" in reason(report)[1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"dropout": 0.1}, "no dropout"),
        ({"value": tensor(2, 8, 128, 32)}, "one width of heads"),
        ({"query": tensor(8, 128, 64)}, "four dimensions"),
        ({"why_not": {"flash": "head_dim should be a multiple of 8"}}, "flash: head_dim should be"),
    ],
)
def test_math_with_a_reason_in_the_tensors(more: dict[str, Any], words: str) -> None:
    assert words in reason(with_attention(sdpa("math", "cpu", **more)))[1]


@pytest.mark.parametrize("backend", ["flash", "efficient", "cudnn", "cpu_flash", ""])
def test_a_fused_or_unknown_kernel_is_no_fault(backend: AttentionBackend) -> None:
    assert found_by(with_attention(sdpa(backend)), "sdpa-math") == []


# Which kernel.


def test_one_kernel_for_all_or_none_known_is_no_finding() -> None:
    assert found_by(with_attention(sdpa("flash"), sdpa("flash", line=13)), "attention-backend") == []
    assert found_by(with_attention(sdpa("")), "attention-backend") == []
    assert found_by(with_attention(sdpa(""), sdpa("math")), "attention-backend") == []
    assert found_by(with_attention(flash()), "attention-backend") == []


# flex_attention.


def compiled(function: str, status: Any = "compiled", reason: str = "") -> Compilation:
    place = Location(f"{SITE}/torch/nn/attention/flex_attention.py", 2497, function=function)
    return Compilation("0/0", 0, 0, place, status, function=function, reason=reason, caller=USER)


def test_flex_attention_outside_of_a_graph() -> None:
    report = empty_report()
    report.compilations = [compiled("_flex_attention_hop_wrapper")]
    finding = only(report, "flex-attention")
    assert (finding.severity, finding.location, finding.evidence) == ("warning", USER, ["0/0"])
    assert "torch.compile(flex_attention)" in finding.advice


def test_flex_attention_compiled_again() -> None:
    report = empty_report()
    guard = "___check_obj_id(block_mask.mask_mod, 1234)"
    report.recompiles = [Recompile("r1", "0/1", "0/0", USER, "identity", source="block_mask.mask_mod", guard=guard)]
    finding = only(report, "flex-attention")
    assert finding.evidence == ["r1"] and finding.title.endswith("1 recompile")


def test_what_flex_attention_refuses_on_a_cpu() -> None:
    report = empty_report()
    said = "NotImplementedError: torch.compile on CPU only supports inference and `return_lse` is not supported yet."
    report.compilations = [compiled("attend", "failed", said), compiled("_flex_attention_hop_wrapper")]
    finding = only(report, "flex-attention")
    assert finding.severity == "error" and "torch.no_grad()" in finding.advice


def test_flex_attention_as_it_should_be() -> None:
    report = with_attention(AttentionCall("a1", "g1", "flex_attention", "flex", USER.file, 12))
    report.compilations = [compiled("attend")]
    report.recompiles = [Recompile("r1", "0/1", "0/0", USER, "shape", source="x.size()[0]", guard="size mismatch")]
    assert found_by(report, "flex-attention") == []
