"""Layers and caches of real libraries on a CPU, what they do to a graph, and what the advice then spares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from program import explain


def run(tmp_path: Path, program: str, *words: str) -> dict[str, Any]:
    file = tmp_path / "serve.py"
    file.write_text(program)
    ended, report = explain(file, "--quiet-target", "--", *words, cwd=tmp_path, env={"OMP_NUM_THREADS": "1"})
    assert ended.status == 0, ended.stderr[-2000:]
    return report


def found(report: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["rule"] == rule]


# bitsandbytes and torchao: one program for each, since importing one takes seconds.
BITSANDBYTES = """\
import sys, torch
import bitsandbytes as bnb
from torch import nn

class Block(nn.Module):
    def __init__(self, up, down):
        super().__init__()
        self.up, self.down = up, down

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

class Four(Block):
    pass

class Eight(Block):
    pass

def eight(threshold):
    layers = [bnb.nn.Linear8bitLt(64, 64, bias=False, has_fp16_weights=False, threshold=threshold) for _ in "ab"]
    return Eight(*layers).half().to("cpu").eval()

def four(dtype):
    layers = [bnb.nn.Linear4bit(64, 64, bias=False, compute_dtype=dtype, quant_type="nf4") for _ in "ab"]
    return Four(*layers).to(torch.bfloat16).to("cpu").eval()

def call(model, x):
    if "warm" in sys.argv:
        model(x)
    compiled = torch.compile(model, backend="eager")
    compiled(x), compiled(x)

torch.manual_seed(0)
if "capture" in sys.argv:
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
with torch.no_grad():
    call(four(torch.float32), torch.randn(4, 64, dtype=torch.bfloat16))
    call(eight(0.0), torch.randn(4, 64, dtype=torch.float16))
    torch._dynamo.reset()
    call(eight(6.0), torch.randn(4, 64, dtype=torch.float16))
"""

TORCHAO = """\
import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

model = Net().eval()
quantize_(model, Int8WeightOnlyConfig())
with torch.no_grad():
    torch.compile(model, backend="aot_eager", fullgraph=True)(torch.randn(4, 64))
"""


def groups(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [group for module in report["modules"] for group in module["layers"]]


def test_bitsandbytes_computes_in_float32_breaks_over_outliers_and_rearranges_weights(tmp_path: Path) -> None:
    report = run(tmp_path, BITSANDBYTES)
    first, *others = groups(report)
    assert (first["library"], first["kind"], first["count"], first["first"]) == ("bitsandbytes", "Linear4bit", 2, "up")
    assert first["facts"]["compute_dtype"] == "float32"
    assert first["facts"]["quantised_from"] == "bfloat16"
    assert (first["facts"]["quant_type"], first["facts"]["block_size"]) == ("nf4", 64)
    assert [(group["kind"], group["facts"]["threshold"]) for group in others] == [
        ("Linear8bitLt", 0.0),
        ("Linear8bitLt", 6.0),
    ]
    (dtype,) = found(report, "bitsandbytes-compute-dtype")
    assert dtype["severity"] == "info", "on a CPU nobody knows whether it is slow"
    (broken,) = found(report, "bitsandbytes-int8-threshold")
    assert set(broken["evidence"]) == {each["id"] for each in report["graph_breaks"]} != set()
    assert found(report, "bitsandbytes-breaks") == []
    (again,) = found(report, "bitsandbytes-first-call")
    moved = [each for each in report["recompiles"] if each["source"].endswith(".CB")]
    assert moved and {each["id"] for each in moved} <= set(again["evidence"])


@pytest.mark.slow
def test_a_call_before_compiling_and_captured_sizes_leave_nothing(tmp_path: Path) -> None:
    """What the advice says: one eager call, and dynamic output shapes in the graph."""
    report = run(tmp_path, BITSANDBYTES, "warm", "capture")
    assert report["graph_breaks"] == []
    assert found(report, "bitsandbytes-first-call") == []
    assert found(report, "bitsandbytes-int8-threshold") == []


@pytest.mark.slow
def test_torchao_compiles_whole(tmp_path: Path) -> None:
    report = run(tmp_path, TORCHAO)
    (group,) = groups(report)
    assert (group["library"], group["count"], group["first"]) == ("torchao", 2, "up")
    assert group["kind"].endswith("Tensor") and group["facts"]["dtype"] == "float32"
    assert group["facts"]["dynamic_activations"] is False
    assert len(report["graphs"]) == 1
    assert report["findings"] == []


# LoRA under PEFT.
SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "lora.py"
LORA = """\
import sys, tempfile, torch
from peft import LoraConfig, get_peft_model
from peft.utils.hotswap import hotswap_adapter, prepare_model_for_compiled_hotswap
from transformers import LlamaConfig, LlamaModel

def build(rank):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )
    lora = LoraConfig(r=rank, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    return get_peft_model(LlamaModel(config), lora).eval()

tokens = torch.arange(2, 10).view(1, 8)
"""

SWAP = (
    LORA
    + """\
with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    build(16).save_pretrained(folder)
    model = build(4)
    if "prepared" in sys.argv:
        prepare_model_for_compiled_hotswap(model, target_rank=16)
    compiled = torch.compile(model, backend="eager")
    compiled(input_ids=tokens, use_cache=False)
    hotswap_adapter(model, folder, adapter_name="default")
    compiled(input_ids=tokens, use_cache=False)
"""
)

WARMED = (
    LORA
    + """\
model = build(4)
model.add_adapter("other", model.peft_config["default"])
compiled = torch.compile(model, backend="eager")

def every_state():
    for name in ("default", "other"):
        model.set_adapter(name)
        compiled(input_ids=tokens, use_cache=False)
    with model.disable_adapter():
        compiled(input_ids=tokens, use_cache=False)

with torch.no_grad():
    if "idle" in sys.argv:
        compiled(input_ids=tokens, use_cache=False)
    else:
        every_state()
        torch.compiler.set_stance("fail_on_recompile")
        every_state()
"""
)


def test_every_new_state_of_the_adapters_compiles_once(tmp_path: Path) -> None:
    """French, german, french, german, none: the way back compiles nothing."""
    ended, report = explain(SAMPLE, "--quiet-target", "--fail-on", "recompile", cwd=tmp_path)
    assert ended.status == 1
    assert [each["actual"] for each in report["recompiles"]] == ["'german'", "True"]
    mark = next(line for line in SAMPLE.read_text().splitlines() if "# recompiles:" in line)
    assert [each["cause"] for each in report["recompiles"]] == mark.partition("# recompiles: ")[2].split()
    (finding,) = report["findings"]
    assert (finding["rule"], finding["evidence"]) == ("adapter-switch", ["r1", "r2"])
    assert Path(finding["location"]["file"]).name == "lora.py"
    (adapters,) = [module["adapters"] for module in report["modules"]]
    assert (adapters["names"], adapters["ranks"]) == (["french", "german"], {"french": 4, "german": 8})
    assert adapters["layers"] == 4 and not adapters["merged"] and not adapters["prepared_for_hotswap"]
    assert adapters["switches"] >= 2


@pytest.mark.slow
def test_a_prepared_model_takes_another_rank_without_a_compile(tmp_path: Path) -> None:
    report = run(tmp_path, SWAP, "prepared")
    assert report["recompiles"] == report["findings"] == []
    assert report["modules"][0]["adapters"]["prepared_for_hotswap"] is True


@pytest.mark.slow
def test_nothing_compiles_after_every_state_was_called_once(tmp_path: Path) -> None:
    """What the advice against switches says; `fail_on_recompile` ends a program that compiles all the same."""
    report = run(tmp_path, WARMED)
    assert len(report["recompiles"]) == 2
    (finding,) = report["findings"]
    assert finding["rule"] == "adapter-switch" and "once in the warm-up" in finding["advice"]


# Key-value caches of transformers, in loops of one's own and in `generate`.
LLAMA = """\
import sys, torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, StaticCache

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)
model = LlamaForCausalLM(config).eval()
tokens = torch.ones(1, 6, dtype=torch.long)
static = "static" in sys.argv
"""
LOOP = (
    LLAMA
    + """\
compiled = torch.compile(model, backend="eager")
with torch.no_grad():
    for text in range(2):
        cache = StaticCache(config=model.config, max_cache_len=32) if static else DynamicCache(config=model.config)
        out = compiled(input_ids=tokens, past_key_values=cache)
        for step in range(3):
            out = compiled(input_ids=out.logits[:, -1:].argmax(-1), past_key_values=cache)  # here
        if static:
            torch.compiler.set_stance("fail_on_recompile")
"""
)
GENERATE = (
    LLAMA
    + """\
model.forward = torch.compile(model.forward, backend="eager")
for text in range(2):
    words = {"cache_implementation": "static"} if static else {}
    model.generate(tokens, max_new_tokens=4, min_new_tokens=4, do_sample=False, **words)
    if static:
        torch.compiler.set_stance("fail_on_recompile")
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("program", [LOOP, GENERATE], ids=["own loop", "generate"])
def test_a_static_cache_ends_it(tmp_path: Path, program: str) -> None:
    """And after the first text nothing compiles: torch would end the program with an error."""
    assert {each["rule"] for each in run(tmp_path, program, "static")["findings"]} == {"prefill-and-decode"}
