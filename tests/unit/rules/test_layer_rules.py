"""Rules about layers of libraries: when each speaks, of what, and when it is silent."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from dynalyze.report import BackwardCompile, Location, Report, SkippedFrame, TracedFile
from dynalyze.report.models import Adapters, LayerGroup, ModuleFacts
from dynalyze.rules.rule import judge, reaches
from sample_reports import compilation, empty_report, found_by, graph_break, recompile

PACKAGES = "/opt/venv/lib/python3.11/site-packages"
LORA = "self._modules['model']._modules['layers']._modules['0']._modules['q_proj']"
CACHE = "kwargs['past_key_values'].layers[0]"
INT8_BREAK = "bitsandbytes.int8_vectorwise_quant.default"


def with_adapters(**fields: Any) -> Report:
    report = empty_report()
    report.compilations = [compilation("0/0")]
    given = {"names": ["french"], "active": ["french"], "ranks": {"french": 4}, "layers": 2, **fields}
    report.modules = [ModuleFacts("m1", "PeftModel", file="/w/serve.py", line=7, adapters=Adapters(**given))]
    return report


def with_layers(library: str, kind: str, facts: dict[str, Any], **module: Any) -> Report:
    report = empty_report()
    report.environment["packages"] = {"bitsandbytes": "0.50.2", "torchao": "0.18.0"}
    group = LayerGroup(library, kind, 4, "model.layers.0.up", facts)
    report.modules = [ModuleFacts("m1", "Llama", file="/w/serve.py", line=7, layers=[group], **module)]
    return report


def broken_in(report: Report, path: str, **changes: Any) -> Report:
    place = Location(f"{PACKAGES}/{path}", 12, 4, "forward", "out = call(x)")
    report.graph_breaks = [graph_break("b1", "split", place, **changes)]
    return report


# Adapters.


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("self.active_adapter", "module_attribute"),
        ("self._adapters_disabled", "module_attribute"),
        (f"{LORA}._active_adapter[0]", "module_attribute"),
        (f"{LORA}._disable_adapters", "value"),
        (f"{LORA}._modules['lora_A']._modules['french']._parameters['weight']", "requires_grad"),
    ],
)
def test_a_switch_of_adapters_is_one_finding_and_no_recompile_beside_it(source: str, cause: str) -> None:
    report = with_adapters(names=["french", "german"])
    report.recompiles = [recompile("r1", "0/1", source=source, cause=cause, expected="'a'", actual="'b'", guard="")]
    (finding,) = found_by(report, "adapter-switch")
    assert (finding.severity, finding.evidence) == ("warning", ["r1"])
    assert "set_adapter" in finding.advice and "french, german" in finding.advice
    assert finding.impact is not None and finding.impact.compile_seconds == 0.81
    assert found_by(report, "recompile") == found_by(report, "lora-several-adapters") == []


def test_without_peft_the_same_name_is_the_programs_own() -> None:
    report = empty_report()
    report.recompiles = [recompile("r1", "0/1", source="self.active_adapter", cause="module_attribute", guard="")]
    assert [each.rule for each in judge(report)] == ["recompile"]
    report.traced_files = [TracedFile(f"{PACKAGES}/peft/peft_model.py", "", [], "library")]
    assert [each.rule for each in judge(report)] == ["adapter-switch"]


def test_a_switch_up_to_the_limit_stays_with_the_limit() -> None:
    report = with_adapters(names=["french", "german"], switches=2)
    limit = {"source": "self.active_adapter", "guard": ""}
    report.recompiles = [
        recompile("r1", "0/1", cause="module_attribute", **limit),
        recompile("r2", "0/2", cause="limit", **limit),
    ]
    (finding,) = judge(report)
    assert finding.rule == "recompile-limit" and "hotswap_adapter" in finding.advice


def test_several_adapters_without_a_switch_are_a_chance() -> None:
    (finding,) = found_by(with_adapters(names=["french", "german"]), "lora-several-adapters")
    assert (finding.severity, finding.evidence) == ("info", ["m1"])
    assert finding.location == Location("/w/serve.py", 7)
    assert finding.detail is not None and "did not show it" in finding.detail.why
    together = found_by(with_adapters(names=["french", "german"], active=["french", "german"]), "lora-several-adapters")
    assert "run at once" in together[0].title and "add_weighted_adapter" in together[0].advice


def test_an_unmerged_adapter_in_inference() -> None:
    (finding,) = found_by(with_adapters(), "lora-unmerged")
    assert finding.severity == "info"
    assert finding.title == "The adapter `french` of rank 4 is computed beside the weights in 2 layers"
    assert "merge_and_unload" in finding.advice


@pytest.mark.parametrize(
    "fields",
    [
        {"merged": True}, {"disabled": True}, {"active": []}, {"prepared_for_hotswap": True}, {"switches": 1},
        {"names": ["french", "german"]},
    ],
)  # fmt: skip
def test_adapters_that_are_merged_or_may_change_are_left_alone(fields: dict[str, Any]) -> None:
    assert found_by(with_adapters(**fields), "lora-unmerged") == []


def test_training_needs_the_adapter_apart() -> None:
    report = with_adapters()
    report.modules[0].training = True
    assert found_by(report, "lora-unmerged") == []
    report.modules[0].training = False
    report.compilations[0].backward = [BackwardCompile()]
    assert found_by(report, "lora-unmerged") == []


@pytest.mark.parametrize(
    ("source", "cause", "values", "what", "rank"),
    [
        (f"{LORA}.scaling['french']", "module_attribute", ("2.0", "1.0"), "The scaling", 4),
        (
            f"{LORA}._modules['lora_A']._modules['f']._parameters['weight'].size()[0]",
            "shape",
            ("4", "16"),
            "The rank",
            16,
        ),
    ],
)
def test_a_swapped_adapter_that_did_not_fit(
    source: str, cause: str, values: tuple[str, str], what: str, rank: int
) -> None:
    report = with_adapters()
    report.recompiles = [
        recompile("r1", "0/1", source=source, cause=cause, expected=values[0], actual=values[1], guard="")
    ]
    (finding,) = found_by(report, "lora-hotswap")
    assert finding.title.startswith(what)
    assert f"prepare_model_for_compiled_hotswap(model, target_rank={rank})" in finding.advice
    assert found_by(report, "recompile") == found_by(report, "lora-unmerged") == []
    report.modules[0].adapters = Adapters(prepared_for_hotswap=True)
    assert "was prepared" in found_by(report, "lora-hotswap")[0].advice


# Caches.


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        (f"{CACHE}.keys.size()[2]", "shape"),
        (f"{CACHE}.is_initialized", "value"),
        (f"{CACHE}.cumulative_length", "value"),
    ],
)
def test_a_cache_that_grows(source: str, cause: str) -> None:
    report = empty_report()
    report.recompiles = [recompile("r1", "0/1", source=source, cause=cause, guard="")]
    (finding,) = judge(report)
    assert (finding.rule, finding.evidence) == ("dynamic-cache", ["r1"])
    assert 'cache_implementation="static"' in finding.advice
    assert "one by one" not in finding.advice


def test_a_cache_in_a_loop_of_ones_own_names_the_class() -> None:
    report = empty_report()
    lead = recompile("r1", "0/1", source=f"{CACHE}.keys.size()[2]", cause="shape", guard="")
    report.recompiles = [lead]
    mine, library = Location("/w/serve.py", 9), Location(f"{PACKAGES}/transformers/generation/utils.py", 3235)
    called = compilation("0/1")
    report.compilations, called.caller = [called], mine
    assert "StaticCache(config=model.config" in found_by(report, "dynamic-cache")[0].advice
    called.caller = library
    assert 'cache_implementation="static"' in found_by(report, "dynamic-cache")[0].advice


def generating(source: str, cause: str, *values: str, caller: Location | None = None) -> Report:
    """Recompiles of a transformers model over one value that went through `values`."""
    report = empty_report()
    report.modules = [ModuleFacts("m1", "Llama", file="/w/serve.py", line=7, family="llama")]
    for number, (before, after) in enumerate(pairwise(values), 1):
        identity = f"0/{number}"
        again = recompile(f"r{number}", identity, source=source, cause=cause, expected=before, actual=after, guard="")
        again.change = f"c{number}"
        report.recompiles.append(again)
        one = compilation(identity)
        one.caller = caller
        report.compilations.append(one)
    return report


TOKENS = "kwargs['input_ids'].size()[1]"
GENERATE = Location(f"{PACKAGES}/transformers/generation/utils.py", 3235)


def test_a_prompt_and_single_tokens_are_two_programs_and_no_fault() -> None:
    (finding,) = judge(generating(TOKENS, "shape", "6", "1"))
    assert (finding.rule, finding.severity, finding.evidence) == ("prefill-and-decode", "info", ["r1"])
    assert reaches([finding], "recompile") and "warm-up" in finding.advice
    (finding,) = judge(generating("len(kwargs)", "container", "6", "7", caller=GENERATE))
    assert finding.rule == "prefill-and-decode" and "`generate` of two tokens" in finding.advice


@pytest.mark.parametrize(
    "report",
    [
        generating(TOKENS, "shape", "6", "7"),
        generating(TOKENS, "shape", "6", "1", "9"),
        generating("batch['pixels'].size()[1]", "shape", "6", "1"),
        generating("len(kwargs)", "container", "6", "7", caller=Location("/w/serve.py", 9)),
    ],
    ids=["other lengths", "several", "no tokens", "keywords of the program's own"],
)
def test_other_changes_are_plain_recompiles(report: Report) -> None:
    assert {each.rule for each in judge(report)} == {"recompile"}


def test_layers_compiled_one_by_one_belong_to_the_cache_only_beside_it() -> None:
    report = empty_report()
    index = recompile("r2", "0/2", source="self.self_attn.layer_idx", cause="module_attribute", guard="")
    report.recompiles = [index]
    assert [each.rule for each in judge(report)] == ["recompile"]
    report.recompiles = [recompile("r1", "0/1", source=f"{CACHE}.keys.size()[2]", guard=""), index]
    (finding,) = judge(report)
    assert finding.evidence == ["r1", "r2"] and "one by one" in finding.advice


@pytest.mark.parametrize(
    ("attention", "cache", "fires"),
    [
        ("flash_attention_2", "static", True),
        ("flash_attention_2", "dynamic", False),
        ("sdpa", "static", False),
        ("", "", False),
    ],
)
def test_flash_attention_meets_a_static_cache(attention: str, cache: str, fires: bool) -> None:
    report = empty_report()
    report.modules = [ModuleFacts("m1", "Llama", attention=attention, cache=cache)]
    assert len(found_by(report, "static-cache-attention")) == fires


# bitsandbytes.

FOUR = {"compute_dtype": "float32", "quant_type": "nf4", "quantised_from": "bfloat16"}


@pytest.mark.parametrize(
    ("parameters", "devices", "severity"),
    [
        ({"uint8": 900, "bfloat16": 99}, {"cuda:0": 999}, "warning"),
        ({"uint8": 900, "float32": 99}, {"cuda:0": 999}, "info"),
        ({"uint8": 900, "bfloat16": 99}, {"cpu": 999}, "info"),
    ],
)
def test_four_bits_in_float32_are_a_fault_where_they_are_slow(
    parameters: dict[str, int], devices: dict[str, int], severity: str
) -> None:
    report = with_layers("bitsandbytes", "Linear4bit", FOUR, parameters=parameters, devices=devices)
    (finding,) = found_by(report, "bitsandbytes-compute-dtype")
    assert finding.severity == severity
    assert "bnb_4bit_compute_dtype=torch.bfloat16" in finding.advice
    assert finding.title == "4 4-bit layers of Llama compute in float32"


def test_outliers_break_the_graph() -> None:
    report = with_layers("bitsandbytes", "Linear8bitLt", {"threshold": 6.0, "has_fp16_weights": False})
    broken_in(report, "bitsandbytes/functional.py", context=INT8_BREAK, occurrences=13)
    (finding,) = found_by(report, "bitsandbytes-int8-threshold")
    assert finding.title == "8-bit layers with an outlier threshold of 6 break the graph 13 times"
    assert "llm_int8_threshold=0.0" in finding.advice and "capture_dynamic_output_shape_ops" in finding.advice
    assert found_by(report, "bitsandbytes-breaks") == []


@pytest.mark.parametrize(
    ("torch", "library", "told"),
    [
        ("2.7.1+cu126", "0.45.0", ["torch to 2.8", "bitsandbytes to 0.46"]),
        ("2.7.1", "0.50.2", ["Upgrade torch to 2.8 or later (here 2.7.1)."]),
        ("2.13.0+cpu", "0.50.2", ["new enough"]),
        ("2.13.0", None, ["not recorded"]),
    ],
)
def test_breaks_in_bitsandbytes_name_what_is_old(torch: str, library: str | None, told: list[str]) -> None:
    report = broken_in(empty_report(), "bitsandbytes/nn/modules.py", context="setattr")
    report.environment.update(torch=torch, packages={"bitsandbytes": library} if library else {})
    (finding,) = found_by(report, "bitsandbytes-breaks")
    assert finding.evidence == ["b1"]
    assert all(words in finding.advice for words in told)
    assert ("Upgrade torch" in finding.advice) == torch.startswith("2.7")


def test_a_break_in_a_file_that_is_only_called_so_is_the_programs_own() -> None:
    report = empty_report()
    report.graph_breaks = [graph_break("b1", "split", Location("/w/bitsandbytes.py", 3))]
    assert [each.rule for each in judge(report)] == ["graph-break"]


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("self._modules['up']._parameters['weight'].CB", "tensor_type"),
        (
            "self._modules['model']._modules['layers']._modules['0']._modules['up']._parameters['weight'].size()[0]",
            "shape",
        ),
    ],
)
def test_what_bitsandbytes_rearranges_in_its_first_call(source: str, cause: str) -> None:
    report = with_layers("bitsandbytes", "Linear4bit", {})
    report.recompiles = [recompile("r1", "0/1", source=source, cause=cause, guard="")]
    (finding,) = judge(report)
    assert (finding.rule, finding.evidence) == ("bitsandbytes-first-call", ["r1"])
    assert "before torch.compile" in finding.advice


# torchao and other quantisers.


def test_what_happens_in_torchaos_code() -> None:
    report = broken_in(with_layers("torchao", "Int8Tensor", {}), "torchao/quantization/utils.py")
    report.skipped_frames = [SkippedFrame("s1", Location(f"{PACKAGES}/torchao/ops.py", 3), "skip_list", tensors=True)]
    (finding,) = found_by(report, "torchao")
    assert finding.title == "In torchao's own code: 1 graph break, 1 function left in eager"
    assert finding.evidence == ["b1", "s1"]
    assert "torchao 0.18.0 with torch 2.13.0" in finding.advice


@pytest.mark.parametrize(
    ("library", "kind", "path"),
    [
        ("hqq", "HQQLinear", "hqq/core/quantize.py"),
        ("gptqmodel", "TorchQuantLinear", "gptqmodel/nn_modules/qlinear/torch.py"),
        ("fbgemm", "FbgemmFp8Linear", "transformers/integrations/fbgemm_fp8.py"),
    ],
)
def test_breaks_in_another_quantisers_code(library: str, kind: str, path: str) -> None:
    report = broken_in(with_layers(library, kind, {"compiled_by_generate": False}), path)
    (finding,) = found_by(report, "other-quantiser")
    assert finding.evidence == ["b1"]
    assert f"4 {kind} layers" in finding.title
    assert finding.detail is not None and "does not compile" in finding.detail.why


def test_functions_of_a_quantiser_in_eager_count_and_silence_does_not() -> None:
    report = with_layers("hqq", "HQQLinear", {})
    assert judge(report) == []
    place = Location(f"{PACKAGES}/hqq/core/quantize.py", 40)
    report.skipped_frames = [SkippedFrame("s1", place, "skip_list", tensors=True)]
    (finding,) = found_by(report, "other-quantiser")
    assert "1 function left in eager" in finding.title
    elsewhere = broken_in(with_layers("hqq", "HQQLinear", {}), "other/quantize.py")
    assert found_by(elsewhere, "other-quantiser") == []


@pytest.mark.parametrize(("kind", "how"), [("script", "after `from_pretrained`"), ("transformers", "with `--weights`")])
def test_a_quantiser_that_the_configuration_names_alone_is_unknown(kind: Any, how: str) -> None:
    report = empty_report()
    report.target.kind = kind
    report.modules = [ModuleFacts("m1", "Llama", file="/w/serve.py", line=7, quantization="gptq")]
    (finding,) = judge(report)
    assert (finding.rule, finding.severity, finding.evidence) == ("quantiser-unknown", "info", ["m1"])
    assert finding.title == "Llama is configured for gptq, and ran without its layers"
    assert "is unknown until then" in finding.advice and how in finding.advice
    report.modules[0].layers = [LayerGroup("gptqmodel", "TorchQuantLinear", 4)]
    assert judge(report) == []
