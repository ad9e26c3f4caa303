"""Layers of the real bitsandbytes and torchao on a CPU: what they do to a graph, and what the advice spares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from program import explain

# One program for each library, since importing one takes seconds.
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

NARROW = (
    TORCHAO.replace("Int8WeightOnlyConfig", "CONFIG")
    .replace("CONFIG()", "CONFIG(**OPTIONS)")
    .replace("Net().eval()", "Net().bfloat16().eval()")
    .replace("torch.randn(4, 64)", "torch.randn(4, 64, dtype=torch.bfloat16)")
)

NAMED_ONLY = """\
import torch
from transformers import LlamaConfig, LlamaModel

config = LlamaConfig(
    vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4,
    num_key_value_heads=2, quantization_config={"quant_method": "METHOD", "bits": 4, "group_size": 32},
)
model = LlamaModel(config).eval()
with torch.no_grad():
    torch.compile(model, backend="eager")(input_ids=torch.ones(1, 7, dtype=torch.long), use_cache=False)
"""


def run(tmp_path: Path, program: str, *words: str) -> dict[str, Any]:
    file = tmp_path / "serve.py"
    file.write_text(program)
    ended, report = explain(file, "--quiet-target", "--", *words, cwd=tmp_path)
    assert ended.status == 0, ended.stderr[-2000:]
    return report


def found(report: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["rule"] == rule]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "options"),
    [("Int8DynamicActivationInt8WeightConfig", ""), ("IntxWeightOnlyConfig", "weight_dtype=torch.int4")],
)
def test_torchao_of_fewer_bits_compiles_whole(tmp_path: Path, config: str, options: str) -> None:
    report = run(tmp_path, NARROW.replace("CONFIG", config).replace("**OPTIONS", options))
    assert [group["library"] for group in groups(report)] == ["torchao"]
    assert report["findings"] == []


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_a_quantiser_that_only_the_configuration_names_is_unknown(tmp_path: Path, method: str) -> None:
    report = run(tmp_path, NAMED_ONLY.replace("METHOD", method))
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"]) == ("quantiser-unknown", "info")
    assert f"configured for {method}" in finding["title"]
