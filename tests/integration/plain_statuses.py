"""The statuses of twenty architectures by torch and transformers alone: nothing of dynalyze is imported here.

    python plain_statuses.py > statuses.json

Every model is built from a small configuration written down by hand, with real initialisation, run once in eager and
then compiled with the backend "eager". Each runs in a fork of its own of a process that only imported things.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
import transformers as hf
from torch._dynamo.utils import counters

Case = Callable[[], tuple[Any, dict[str, Any]]]

TEXT = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
    "max_position_embeddings": 64,
}  # fmt: skip
DECODER = {**TEXT, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
VISION = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37, "image_size": 32,
    "patch_size": 8, "num_channels": 3,
}  # fmt: skip


def tokens(length: int = 16, vocabulary: int = 99) -> dict[str, Any]:
    ids = torch.randint(3, vocabulary, (2, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def pixels(size: int = 32) -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, size, size)}


def both(length: int = 12) -> dict[str, Any]:
    return {**tokens(), "decoder_input_ids": torch.randint(3, 99, (2, length))}


def text(model: str, config: str, **more: Any) -> Case:
    return lambda: (getattr(hf, model)(getattr(hf, config)(**{**TEXT, **more})), tokens())


def decoder(model: str, config: str, **more: Any) -> Case:
    return lambda: (getattr(hf, model)(getattr(hf, config)(**{**DECODER, **more})), tokens())


def image(model: str, config: str, **more: Any) -> Case:
    return lambda: (getattr(hf, model)(getattr(hf, config)(**{**VISION, **more})), pixels())


def t5() -> tuple[Any, dict[str, Any]]:
    config = hf.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_decoder_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    return hf.T5Model(config), both()


def reformer() -> tuple[Any, dict[str, Any]]:
    config = hf.ReformerConfig(
        vocab_size=99, hidden_size=32, num_attention_heads=2, attention_head_size=16, feed_forward_size=37,
        attn_layers=["local", "lsh"], axial_pos_shape=[4, 8], axial_pos_embds_dim=[16, 16],
        local_attn_chunk_length=8, lsh_attn_chunk_length=8, max_position_embeddings=64, is_decoder=False,
    )  # fmt: skip
    return hf.ReformerModel(config), tokens(32)


def mamba() -> tuple[Any, dict[str, Any]]:
    config = hf.MambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8, intermediate_size=64)
    return hf.MambaModel(config), tokens()


def clip() -> tuple[Any, dict[str, Any]]:
    config = hf.CLIPConfig(
        text_config={**TEXT, "max_position_embeddings": 64, "eos_token_id": 2}, vision_config=VISION, projection_dim=16
    )
    return hf.CLIPModel(config), {**tokens(), **pixels()}


def whisper() -> tuple[Any, dict[str, Any]]:
    config = hf.WhisperConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, num_mel_bins=16, max_source_positions=30,
        max_target_positions=40, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    inputs = {"input_features": torch.randn(2, 16, 60), "decoder_input_ids": torch.randint(3, 99, (2, 8))}
    return hf.WhisperModel(config), inputs


def convnext() -> tuple[Any, dict[str, Any]]:
    config = hf.ConvNextV2Config(num_stages=2, hidden_sizes=[8, 16], depths=[1, 1], image_size=32)
    return hf.ConvNextV2Model(config), pixels()


def encodec() -> tuple[Any, dict[str, Any]]:
    return hf.EncodecModel(hf.EncodecConfig(num_filters=4, hidden_size=32, codebook_size=64)), {
        "input_values": torch.randn(2, 1, 2400),
        "padding_mask": torch.ones(2, 1, 2400, dtype=torch.long),
    }


def llava() -> tuple[Any, dict[str, Any]]:
    vision = hf.CLIPVisionConfig(**VISION)
    config = hf.LlavaConfig(
        vision_config=vision, text_config=hf.LlamaConfig(**DECODER), image_token_index=98,
        vision_feature_layer=-1, image_seq_length=16,
    )  # fmt: skip
    ids = torch.cat([torch.full((2, 16), 98), torch.randint(3, 98, (2, 8))], dim=1)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **pixels()}
    return hf.LlavaForConditionalGeneration(config), inputs


CASES: dict[str, Case] = {
    "BertModel": text("BertModel", "BertConfig"),
    "AlbertModel": text("AlbertModel", "AlbertConfig", embedding_size=16),
    "ReformerModel": reformer,
    "GPT2Model": lambda: (
        hf.GPT2Model(hf.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
        tokens(),
    ),
    "LlamaModel": decoder("LlamaModel", "LlamaConfig"),
    "MistralForCausalLM": decoder("MistralForCausalLM", "MistralConfig"),
    "Qwen2ForCausalLM": decoder("Qwen2ForCausalLM", "Qwen2Config"),
    "Gemma2Model": decoder("Gemma2Model", "Gemma2Config", head_dim=8, sliding_window=8),
    "PhiModel": decoder("PhiModel", "PhiConfig", num_key_value_heads=4),
    "MixtralModel": decoder(
        "MixtralModel", "MixtralConfig", num_local_experts=4, num_experts_per_tok=2, intermediate_size=32
    ),
    "FalconModel": text("FalconModel", "FalconConfig"),
    "MambaModel": mamba,
    "T5Model": t5,
    "ViTModel": image("ViTModel", "ViTConfig"),
    "BeitModel": image("BeitModel", "BeitConfig", out_indices=[1]),
    "ConvNextV2Model": convnext,
    "CLIPModel": clip,
    "WhisperModel": whisper,
    "EncodecModel": encodec,
    "LlavaForConditionalGeneration": llava,
}


def status(case: Case) -> str:
    """What torch.compile makes of one case, judged by torch's own counters."""
    torch.manual_seed(0)
    try:
        model, inputs = case()
        model.eval()
    except Exception as error:
        return f"create_error: {type(error).__name__}: {error}"
    with torch.no_grad():
        try:
            model(**inputs)
        except Exception as error:
            return f"eager_error: {type(error).__name__}: {error}"
        counters.clear()
        try:
            torch.compile(model, backend="eager")(**inputs)
        except Exception as error:
            return f"compile_error: {type(error).__name__}: {error}"
    if not counters["stats"]["unique_graphs"]:
        return "nothing compiled"
    return "graph_break" if counters["graph_break"] else "full_graph"


def forked(case: Case) -> str:
    """`status` in a process of its own, which no other case has touched."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, status(case).encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().decode()
    os.waitpid(child, 0)
    return told or "crash"


def warm_up() -> None:
    """Import all that a first compile imports; with one thread nothing starts here that a fork would lose."""
    torch.set_num_threads(1)
    torch.compile(torch.nn.Linear(2, 2), backend="eager")(torch.ones(1, 2))
    torch._dynamo.reset()


if __name__ == "__main__":
    warm_up()
    names = sys.argv[1:] or list(CASES)
    print(json.dumps({name: forked(CASES[name]) for name in names}, indent=1))
