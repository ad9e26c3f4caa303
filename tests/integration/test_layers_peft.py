"""LoRA under the real PEFT: what adapters compile again, and what the advice then spares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from program import dynalyze, explain

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "lora.py"

BUILD = """\
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
    BUILD
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
    BUILD
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

SERVE = (
    BUILD
    + """\
model = build(4)
if "merged" in sys.argv:
    model = model.merge_and_unload()
with torch.inference_mode():
    torch.compile(model, backend="eager")(input_ids=tokens, use_cache=False)
"""
)


def run(tmp_path: Path, program: str, *words: str) -> dict[str, Any]:
    file = tmp_path / "serve.py"
    file.write_text(program)
    ended, report = explain(file, "--quiet-target", "--", *words, cwd=tmp_path)
    assert ended.status == 0, ended.stderr[-2000:]
    return report


def found(report: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["rule"] == rule]


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
def test_a_swap_of_another_rank_compiles_again(tmp_path: Path) -> None:
    report = run(tmp_path, SWAP)
    assert len(report["recompiles"]) == 1
    (finding,) = report["findings"]
    assert (finding["rule"], finding["evidence"]) == ("lora-hotswap", ["r1"])
    assert "target_rank=16" in finding["advice"]


@pytest.mark.slow
def test_a_prepared_model_takes_another_rank_without_a_compile(tmp_path: Path) -> None:
    report = run(tmp_path, SWAP, "prepared")
    assert report["recompiles"] == report["findings"] == []
    assert report["modules"][0]["adapters"]["prepared_for_hotswap"] is True


@pytest.mark.slow
def test_an_unmerged_adapter_is_told(tmp_path: Path) -> None:
    report = run(tmp_path, SERVE)
    assert report["recompiles"] == []
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"]) == ("lora-unmerged", "info")
    assert "of rank 4" in finding["title"] and "in 2 layers" in finding["title"]
    assert Path(finding["location"]["file"]).name == "serve.py"


@pytest.mark.slow
def test_a_merged_adapter_is_a_plain_model(tmp_path: Path) -> None:
    plain, merged = run(tmp_path, SERVE), run(tmp_path, SERVE, "merged")
    assert merged["findings"] == [] and merged["modules"][0]["adapters"] is None
    assert merged["graphs"][0]["ops"] < plain["graphs"][0]["ops"]


@pytest.mark.slow
def test_nothing_compiles_after_every_state_was_called_once(tmp_path: Path) -> None:
    """What the advice against switches says; `fail_on_recompile` ends a program that compiles all the same."""
    report = run(tmp_path, WARMED)
    assert len(report["recompiles"]) == 2
    (finding,) = report["findings"]
    assert finding["rule"] == "adapter-switch" and "once in the warm-up" in finding["advice"]


@pytest.mark.slow
def test_a_second_adapter_that_waits_is_told(tmp_path: Path) -> None:
    report = run(tmp_path, WARMED, "idle")
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"]) == ("lora-several-adapters", "info")
    assert "default, other" in finding["title"]


@pytest.mark.slow
def test_the_rules_explain_themselves(tmp_path: Path) -> None:
    for rule in ("adapter-switch", "lora-several-adapters", "lora-hotswap", "lora-unmerged"):
        assert dynalyze("rules", rule, cwd=tmp_path).status == 0
