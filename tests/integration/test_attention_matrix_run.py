"""The attention matrix of a real model, each cell in processes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalyze.audit.attention_matrix import attention_matrix
from dynalyze.bench.plan import Plan
from dynalyze.capture.bench.protocol import Configuration, Work
from dynalyze.launch.spec import TargetSpec, read_target
from dynalyze.report.audit import AttentionCell, AttentionMatrix
from dynalyze.text.errors import UsageError

STAND_INS = Path(__file__).parents[1] / "stand_ins" / "flash_attn"

PADDED = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

def build():
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=2)
    torch.manual_seed(0)
    model = LlamaForCausalLM._from_config(config, dtype=torch.bfloat16).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[0, :3] = 0
    return model, {"input_ids": torch.arange(16).reshape(2, 8), "attention_mask": mask, "use_cache": False}

def plain(x):
    return x * 2
"""


def plan(backend: str = "eager", phase: str = "forward") -> Plan:
    work = Work("decode" if phase == "decode" else "forward")
    configurations = (Configuration("default", backend=backend),)
    return Plan({}, configurations, works=(work,), seconds=0, timeout=240.0, quiet=True, new_tokens=3)


def tried(target: TargetSpec, how: Plan, attentions: str | None = None, dtypes: str = "bfloat16") -> AttentionMatrix:
    names = tuple(attentions.split(",")) if attentions else ()
    return attention_matrix(target, how, names, tuple(dtypes.split(",")))


def cell(found: AttentionMatrix, attention: str, dtype: str = "bfloat16", cache: str = "") -> AttentionCell:
    return next(each for each in found.cells if (each.attention, each.dtype, each.cache) == (attention, dtype, cache))


@pytest.mark.slow
def test_an_unknown_name_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="no attention implementation 'nonsense'"):
        tried(read_target("hf:LlamaForCausalLM", None, ()), plan(), "nonsense")


@pytest.mark.slow
def test_a_function_has_no_attention(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PADDED)
    with pytest.raises(UsageError, match="model of transformers"):
        tried(read_target(f"{tmp_path}/model.py:plain", None, (), ("torch.ones(2)",)), plan())


@pytest.mark.slow
def test_decoding_is_tried_with_both_caches() -> None:
    found = tried(read_target("hf:LlamaForCausalLM", None, ()), plan(phase="decode"), "sdpa")
    assert (found.caches, found.own_cache) == (["dynamic", "static"], "dynamic")
    assert [each.cache for each in found.cells] == ["dynamic", "static"]
    assert cell(found, "sdpa", cache="dynamic").status == "recompiles"
    assert cell(found, "sdpa", cache="static").status == "runs"


@pytest.mark.slow
def test_a_padded_batch_breaks_flash_attention_and_not_sdpa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS))
    (tmp_path / "model.py").write_text(PADDED)
    target = read_target(f"{tmp_path}/model.py:build", None, ())
    found = tried(target, plan(), "sdpa,flash_attention_2", "float32,bfloat16")
    assert cell(found, "sdpa").status == "runs"
    broken = cell(found, "flash_attention_2")
    assert broken.status == "breaks"
    assert broken.graph_breaks > 0
    assert "/transformers/" in broken.file
    assert broken.line > 0
    refused = cell(found, "flash_attention_2", "float32")
    assert refused.status == "eager_error"
    assert "fp16 and bf16" in refused.reason
