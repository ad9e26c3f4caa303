"""Small variants of configurations: what shrinks, what goes along, and what stays."""

from __future__ import annotations

import pytest

from dynalyze.capture.libraries.hf.parts import parts_of
from dynalyze.capture.libraries.hf.shrink import small

transformers = pytest.importorskip("transformers")


def test_heads_go_with_the_width_and_keep_their_size() -> None:
    config = transformers.LlamaConfig(num_key_value_heads=8)
    made = small(config)
    assert made.num_hidden_layers == 2
    assert made.hidden_size < config.hidden_size
    assert made.head_dim == config.head_dim == made.hidden_size // made.num_attention_heads
    assert made.num_attention_heads >= 2
    assert made.num_attention_heads % made.num_key_value_heads == 0


def test_two_layers_show_both_kinds() -> None:
    made = small(transformers.Gemma3TextConfig())
    assert made.layer_types == ["sliding_attention", "full_attention"]
    made = small(transformers.Qwen3NextConfig())
    assert sorted(made.layer_types) == ["full_attention", "linear_attention"]


def test_lists_of_layers_of_one_kind_follow_the_layers() -> None:
    text = small(transformers.MllamaConfig()).text_config
    assert (text.num_hidden_layers, text.cross_attention_layers) == (2, [1])


def test_a_mixture_keeps_experts_and_chooses_among_them() -> None:
    made = small(transformers.MixtralConfig())
    assert 2 <= made.num_experts_per_tok < made.num_local_experts
    deep = small(transformers.DeepseekV3Config())
    assert deep.n_routed_experts % deep.n_group == 0
    assert deep.num_experts_per_tok <= deep.topk_group * (deep.n_routed_experts // deep.n_group)


def test_token_ids_lie_in_the_vocabulary_and_stay_different() -> None:
    config = transformers.Qwen2VLConfig()
    made = small(config)
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    ids = [getattr(made, name) for name in names]
    assert len(set(ids)) == len({getattr(config, name) for name in names})
    assert all(0 <= each < made.text_config.vocab_size for each in ids)


def test_one_id_goes_to_one_place_in_all_parts() -> None:
    config = transformers.LlavaConfig(text_config=transformers.LlamaConfig(pad_token_id=31999), image_token_id=31999)
    made = small(config)
    assert made.text_config.pad_token_id == made.image_token_id < made.text_config.vocab_size


def test_stages_keep_their_number_and_a_backbone_its_names() -> None:
    made = small(transformers.SwinConfig())
    assert len(made.depths) == made.num_layers == 4
    assert max(made.depths) == 2
    assert made.embed_dim == transformers.SwinConfig().embed_dim
    backbone = small(transformers.Dinov2Config(out_features=["stage3", "stage6", "stage9", "stage12"]))
    assert len(backbone.out_features) == len(set(backbone.out_features)) == 4
    assert set(backbone.out_features) <= set(backbone.stage_names)


@pytest.mark.parametrize(
    "name", ["LlamaConfig", "BertConfig", "CLIPConfig", "WhisperConfig", "MixtralConfig", "T5Config", "Gemma3Config"]
)
def test_small_is_small_and_made_once(name: str) -> None:
    made = small(getattr(transformers, name))
    for part in parts_of(made):
        assert getattr(part, "hidden_size", 0) <= 640
        assert getattr(part, "vocab_size", 0) <= 1024
    assert small(made).to_dict() == made.to_dict()
