"""Quirks of models of text alone, and of the text parts of larger ones."""

from __future__ import annotations

import math
from typing import Any

from dynalyze.capture.libraries.hf import quirks
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder

OPEN: quirks.Table = {
    # Its attention asks for what its default leaves open; the values are its checkpoint's.
    "dbrx": {"attn_config.rope_theta": 500_000.0, "attn_config.clip_qkv": 8},
    # Which layers have experts (in its checkpoint all but the first), and how many a token is given.
    "deepseek_ocr2_text": {
        "mlp_layer_types": lambda c: ["dense"] + ["sparse"] * (c.num_hidden_layers - 1),
        "num_experts_per_tok": 6,
    },
    # How many experts a token is given; its checkpoints give six.
    "deepseek_v2": {"num_experts_per_tok": 6},
    # Its experts; the values are those of its larger relative, Gemma 4.
    "diffusion_gemma_text": {"num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704},
    # Its experts; its checkpoint has 128 and two shared ones, six to a token.
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6},
    # Its 96 heads do not divide its width: a checkpoint gives their size.
    "glm4v_moe_text": {"head_dim": 128},
    # A checkpoint lists its layers: short convolutions, and attention in every fourth or so.
    "lfm2_moe": {
        "layer_types": lambda c: [
            "full_attention" if number % 4 == 2 else "conv" for number in range(c.num_hidden_layers)
        ]
    },
    # Its full attention chooses tokens by an indexer, whose sizes a checkpoint gives.
    "qwen4_exp_text": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": lambda c: c.head_dim,
        "indexer_budget": 64,
        "indexer_compress_ratio": 4,
    },
    # Its sliding window; its checkpoint has 512.
    "step3p5": {"sliding_window": 512},
    # The language whose adapter runs, which a user chooses.
    "xmod": {"default_language": lambda c: c.languages[0]},
}
COMPLETE: quirks.Table = {
    # Its default has no layer with attention, which its own code cannot run: a checkpoint has some.
    "bamba": {"attn_layer_indices": lambda c: c.attn_layer_indices or list(range(9, c.num_hidden_layers, 9))},
    # Its rotary embeddings, cut in three sections, cover half of a head.
    "glm4v_text glm_image_text": {
        "rope_parameters": lambda c: {"partial_rotary_factor": 0.5, **(c.rope_parameters or {})}
    },
    # Its default has no layer with attention, which its own code cannot run: a checkpoint has some.
    "granitemoehybrid": {
        "layer_types": lambda c: [
            "full_attention" if "full_attention" not in c.layer_types and number % 10 == 5 else kind
            for number, kind in enumerate(c.layer_types)
        ]
    },
    # Its encoder alone asks for a configuration that says so.
    "t5gemma": {
        "is_encoder_decoder": lambda c: c.is_encoder_decoder and "T5GemmaEncoderModel" not in (c.architectures or ())
    },
}
SMALL: quirks.Table = {
    "bamba": {"attn_layer_indices": lambda c: [c.num_hidden_layers - 1]},
    # Its projections are laid out for four devices, so the heads come in fours.
    "codegen": {"n_head": 4},
    # Its stacks run in cycles, and its number of layers counts every turn of each.
    "hrm_text": {"num_hidden_layers": lambda c: c.num_layers_per_stack * c.H_cycles * (c.L_cycles + 1)},
    # Its bottleneck has the width of its embeddings.
    "mobilebert": {
        "intra_bottleneck_size": lambda c: min(c.intra_bottleneck_size, c.hidden_size),
        "true_hidden_size": lambda c: c.intra_bottleneck_size,
        "embedding_size": lambda c: c.intra_bottleneck_size,
    },
    # It shares the states of its Mamba heads in groups, of which there are no more than heads.
    "nemotron_h": {"n_groups": lambda c: min(c.n_groups, c.mamba_num_heads)},
    # Two recurrent blocks go before one of attention; two layers show one of each.
    "recurrent_gemma": {"block_types": lambda c: list(dict.fromkeys(c.block_types))},
    # It hashes texts longer than a chunk: a short text has several, so it is hashed and sorted as a long one is.
    "reformer": {"lsh_attn_chunk_length": 4, "local_attn_chunk_length": 4},
    # Its hybrid layers share one transformer, and are tied only where there are two.
    "zamba": {"layers_block_type": ["linear_attention", "hybrid", "hybrid"], "num_hidden_layers": 3},
}
EQUAL: quirks.Table = {
    # Its cache asks the whole configuration for the number of layers, which only its parts have.
    "blt": {
        "num_hidden_layers": lambda c: max(
            part.num_hidden_layers for part in (c.encoder_config, c.decoder_config, c.global_config)
        )
    }
}
INPUTS: quirks.Table = {
    # A drafting model: it denoises a block of tokens after the hidden states of the model it assists.
    "muse_glimmer_assistant": {
        "noise_embeds": lambda b, c: b.floats((b.batch, c.block_size, c.hidden_size)),
        "context_hidden_states": lambda b, c: b.floats((b.batch, b.sequence, len(c.target_layer_ids) * c.hidden_size)),
        "attention_mask": lambda b, c: b.ones((b.batch, b.sequence + c.block_size)),
    },
    # RoCBert reads the shape and the sound of each character beside its id.
    "roc_bert": {
        "input_shape_ids": lambda b, c: b.integers(b.inputs["input_ids"].shape, 1, c.shape_vocab_size),
        "input_pronunciation_ids": lambda b, c: b.integers(b.inputs["input_ids"].shape, 1, c.pronunciation_vocab_size),
    },
    # JEV decides questions at marked tokens of one prompt.
    "jev": {
        "input_ids": lambda b, c: b.tokens((1, b.sequence)),
        "attention_mask": None,
        "marks": lambda b, c: b.full((1, 2), b.sequence),
        "num_options": lambda b, c: b.full((1, 2), 2),
        "question_type_ids": lambda b, c: b.full((1, 2), 0),
    },
    # Its double heads read several texts a sample, without a mask: its tokenizer's texts of one length need none.
    "openai-gpt": {
        "attention_mask": lambda b, c: None if b.inputs["input_ids"].dim() > 2 else b.inputs["attention_mask"]
    },
    # Without a retriever: the documents that one would have found, as texts with the question, and their scores.
    "rag": {
        "context_input_ids": lambda b, c: b.tokens((b.batch * c.n_docs, b.sequence), c.generator.vocab_size),
        "context_attention_mask": lambda b, c: b.ones((b.batch * c.n_docs, b.sequence)),
        "doc_scores": lambda b, c: b.floats((b.batch, c.n_docs)),
        "reduce_loss": lambda b, c: b.train or None,
    },
}


@quirks.completes("cohere_compass_text")
def cohere_compass_text(config: Any) -> None:
    """A checkpoint gives the rotary embeddings of each kind of layer; the default gives one for all."""
    rotary = config.rope_parameters or {}
    if not set(rotary) & set(config.layer_types):
        rotary = {"rope_type": "default", "rope_theta": 10000.0, **rotary}
        config.rope_parameters = {kind: dict(rotary) for kind in dict.fromkeys(config.layer_types)}


@quirks.completes("hunyuan_vl_text")
def hunyuan_vl_text(config: Any) -> None:
    """Positions in four axes share the frequencies, in parts that a checkpoint names."""
    axes = 4
    rope = dict(config.rope_parameters or {"rope_type": "default", "rope_theta": 10000.0})
    if rope.get("mrope_section") is None:
        head = config.head_dim or config.hidden_size // config.num_attention_heads
        rope["mrope_section"] = [head // 2 // axes] * axes
        config.rope_parameters = rope


@quirks.changes_inputs("gemma4_assistant", "gemma4_unified_assistant")
def gemma4_assistant(b: InputBuilder, c: Any) -> None:
    """A drafting model: it reads embeddings and states of the model it assists, and attends to that model's cache.

    One token to draft from, and the keys and values of each kind of attention for the text before it.
    """
    if not b.wants("shared_kv_states"):
        return
    del b.inputs["input_ids"]
    b.inputs["inputs_embeds"] = b.floats((b.batch, 1, 2 * c.backbone_hidden_size))
    b.inputs["position_ids"] = b.full((b.batch, 1), b.sequence)
    b.inputs["shared_kv_states"] = kept = {}
    for attention in (layer.self_attn for layer in b.model.model.layers):
        heads = attention.config.num_attention_heads // attention.num_key_value_groups
        shape = (b.batch, heads, b.sequence, attention.head_dim)
        kept[attention.layer_type] = (b.floats(shape), b.floats(shape))


@quirks.changes_inputs("longformer")
def longformer(b: InputBuilder, c: Any) -> None:
    """It attends globally to a question, which it finds by the separators after it."""
    length = 5
    if b.name.endswith("ForQuestionAnswering"):
        for position in (length, length + 1, -1):
            b.inputs["input_ids"][:, position] = c.sep_token_id


@quirks.changes_inputs("luke")
def luke(b: InputBuilder, c: Any) -> None:
    """LUKE reads entities beside the words: each has an id, and the positions of the words that mention it."""
    mentioned = 3
    entities = 2 if b.name.endswith("PairClassification") else 1
    # Several choices are several texts a sample.
    shape = (*b.inputs["input_ids"].shape[:-1], entities)
    b.inputs["entity_ids"] = b.integers(shape, 1, c.entity_vocab_size)
    b.inputs["entity_attention_mask"] = b.ones(shape)
    b.inputs["entity_position_ids"] = b.integers((*shape, mentioned), 1, b.sequence)
    for name in ("entity_start_positions", "entity_end_positions"):
        if name in b.takes:
            b.inputs[name] = b.integers(shape, 1, b.sequence)


@quirks.changes_inputs("reformer")
def reformer(b: InputBuilder, c: Any) -> None:
    """It trains on texts as long as its axial positions multiply to."""
    if not (b.train and c.axial_pos_embds):
        return
    length = math.prod(c.axial_pos_shape)
    b.inputs["input_ids"] = b.tokens((b.batch, length))
    b.inputs["attention_mask"] = b.ones((b.batch, length))
    if "labels" in b.inputs and b.inputs["labels"].dim() == 2:
        b.inputs["labels"] = b.inputs["input_ids"].clone()


@quirks.changes_inputs("splinter")
def splinter(b: InputBuilder, c: Any) -> None:
    """Splinter answers at a question token in the text."""
    b.inputs["input_ids"][..., 1] = c.question_token_id
