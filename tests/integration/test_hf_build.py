"""Architectures built small, as `hf:NAME` does: each creates, runs in eager, is finite and equal for equal seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree

from dynalyze.capture.inputs import Misuse
from dynalyze.capture.libraries.building import Built, CannotBuild, ModelRequest
from dynalyze.capture.libraries.hf.library import build
from slow_siblings import mostly_slow

transformers = pytest.importorskip("transformers")

# Each for something that a careless cut breaks: grouped and prime heads, layers of several kinds, shared keys, latent
# attention with groups of experts, states of a recurrence, stages, encoder and decoder, parts that read each other.
TRICKY = [
    "FalconModel", "Gemma3nTextModel", "DeepseekV3Model", "Qwen3NextModel", "Zamba2Model", "Mamba2Model",
    "CodeGenModel", "T5Model", "SwinModel", "CLIPModel", "Wav2Vec2Model", "LlavaForConditionalGeneration",
]  # fmt: skip


def ran(built: Built) -> list[torch.Tensor]:
    with torch.no_grad():
        output = built.model(*built.calls[0].args, **built.calls[0].kwargs)
    leaves = _pytree.tree_leaves(dict(output))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


@pytest.mark.filterwarnings("ignore")  # What architectures say of themselves.
@pytest.mark.parametrize("name", mostly_slow(TRICKY, every=3))
def test_it_builds_small_and_runs(name: str) -> None:
    built = build(ModelRequest(name))
    assert built.class_name == name
    assert built.parameters < 40_000_000
    assert not built.model.training
    outputs = ran(built)
    assert outputs
    assert all(each.isfinite().all() for each in outputs)
    again = build(ModelRequest(name))
    for one, two in zip(built.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, two)
    for one, two in zip(outputs, ran(again), strict=True):
        assert torch.equal(one, two)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", mostly_slow(["BertModel", "ViTModel", "MambaModel", "DeepseekV3Model", "Wav2Vec2Model", "T5Model"], every=3)
)
def test_cheap_weights_have_the_scale_of_real_ones(name: str) -> None:
    fast = dict(build(ModelRequest(name)).model.named_parameters())
    real = dict(build(ModelRequest(name, init="real")).model.named_parameters())
    assert fast.keys() == real.keys()
    for key, weight in fast.items():
        assert weight.shape == real[key].shape
        if weight.numel() >= 64:
            expected = real[key].std().item()
            assert weight.std().item() == pytest.approx(expected, rel=0.25, abs=1e-6), key
            assert weight.mean().item() == pytest.approx(real[key].mean().item(), abs=0.4 * expected + 1e-6), key


@pytest.mark.filterwarnings("ignore")
def test_what_is_asked_for_is_what_comes() -> None:
    built = build(
        ModelRequest(
            "LlamaForCausalLM", batch=3, sequence=5, train=True, dtype="bfloat16", attn_implementation="eager", seed=7
        )
    )
    assert built.calls[0].kwargs["input_ids"].shape == (3, 5)
    assert built.model.training
    assert {weight.dtype for weight in built.model.parameters()} == {torch.bfloat16}
    assert built.model.config._attn_implementation == "eager"
    other = build(ModelRequest("LlamaForCausalLM", dtype="bfloat16"))
    assert not torch.equal(built.model.lm_head.weight, other.model.lm_head.weight)
    assert (built.family, built.parameters) == ("llama", sum(weight.numel() for weight in built.model.parameters()))


@pytest.mark.filterwarnings("ignore")
def test_full_size_is_the_default_configuration() -> None:
    built = build(ModelRequest("SqueezeBertModel", full_size=True))
    assert built.model.config.num_hidden_layers == transformers.SqueezeBertConfig().num_hidden_layers
    assert built.model.config.hidden_size == transformers.SqueezeBertConfig().hidden_size


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    config = transformers.GPT2Config(n_layer=3, n_embd=48, n_head=4, vocab_size=96, n_positions=64)
    torch.manual_seed(1)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore")
def test_a_folder_is_a_configuration_or_with_weights_the_checkpoint(checkpoint: Path) -> None:
    alone = build(ModelRequest(str(checkpoint)))
    assert alone.class_name == "GPT2LMHeadModel"
    assert alone.model.config.n_layer == 2
    whole = build(ModelRequest(str(checkpoint), weights=True))
    assert whole.model.config.n_layer == 3
    saved = transformers.GPT2LMHeadModel.from_pretrained(checkpoint)
    assert torch.equal(whole.model.transformer.wte.weight, saved.transformer.wte.weight)


@pytest.mark.filterwarnings("ignore")
def test_pickled_weights_are_never_read(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").unlink()
    torch.save({}, checkpoint / "pytorch_model.bin")
    with pytest.raises(CannotBuild) as raised:
        build(ModelRequest(str(checkpoint), weights=True))
    assert raised.value.stage == "weights"
    assert "\n" not in str(raised.value)


@pytest.mark.filterwarnings("ignore")
def test_code_of_a_checkpoint_runs_only_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"auto_map": {"AutoConfig": "own.Own"}, "model_type": "own"}))
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(CannotBuild) as raised:
        build(ModelRequest(str(tmp_path)))
    assert raised.value.stage == "config"
    assert "--trust-remote-code" in str(raised.value)
    assert not (tmp_path / "ran").exists()


@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_no_known_architecture_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "rag", "architectures": ["Unheard"]}))
    with pytest.raises(CannotBuild) as raised:
        build(ModelRequest(str(tmp_path)))
    assert raised.value.stage == "config"


def test_weights_of_a_bare_class_are_refused() -> None:
    with pytest.raises(Misuse, match="--weights"):
        build(ModelRequest("BertModel", weights=True))


def test_a_failing_architecture_is_one_line_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, config: Any) -> None:
        raise ValueError("no such\nthing")

    monkeypatch.setattr(transformers.BertModel, "__init__", broken)
    with pytest.raises(CannotBuild) as raised:
        build(ModelRequest("BertModel"))
    assert (raised.value.stage, str(raised.value)) == ("model", "ValueError: no such thing")
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, config: Any) -> None:
        raise ImportError("\nBertModel requires the natten library but it was not found in your environment.")

    monkeypatch.setattr(transformers.BertModel, "__init__", broken)
    with pytest.raises(CannotBuild, match="needs the package natten, which is not installed"):
        build(ModelRequest("BertModel"))
