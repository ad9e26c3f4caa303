"""Quirks of models of text alone, and of the text parts of larger ones."""

from __future__ import annotations

import math
from typing import Any

from dynalyze.capture.hf import quirks
from dynalyze.capture.hf.inputs.input_builder import InputBuilder

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
    },
}
INPUTS: quirks.Table = {
    # A drafting model: it denoises a block of tokens after the hidden states of the model it assists.
    "muse_glimmer_assistant": {
        "noise_embeds": lambda b: b.floats((b.batch, b.config.block_size, b.config.hidden_size)),
        "context_hidden_states": lambda b: b.floats(
            (b.batch, b.sequence, len(b.config.target_layer_ids) * b.config.hidden_size)
        ),
        "attention_mask": lambda b: b.ones((b.batch, b.sequence + b.config.block_size)),
    },
    # RoCBert reads the shape and the sound of each character beside its id.
    "roc_bert": {
        "input_shape_ids": lambda b: b.integers(b.inputs["input_ids"].shape, 1, b.config.shape_vocab_size),
        "input_pronunciation_ids": lambda b: b.integers(
            b.inputs["input_ids"].shape, 1, b.config.pronunciation_vocab_size
        ),
    },
}


@quirks.completes("granitemoehybrid")
def granitemoehybrid(config: Any) -> None:
    """Its default has no layer with attention, which its own code cannot run: a checkpoint has some."""
    if "full_attention" not in config.layer_types:
        attention = range(5, config.num_hidden_layers, 10)
        config.layer_types = [
            "full_attention" if number in attention else kind for number, kind in enumerate(config.layer_types)
        ]


@quirks.completes("t5gemma")
def t5gemma(config: Any) -> None:
    """Its encoder alone asks for a configuration that says so."""
    if "T5GemmaEncoderModel" in (config.architectures or ()):
        config.is_encoder_decoder = False


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
def gemma4_assistant(builder: InputBuilder) -> None:
    """A drafting model: it reads embeddings and states of the model it assists, and attends to that model's cache.

    One token to draft from, and the keys and values of each kind of attention for the text before it.
    """
    if not builder.wants("shared_kv_states"):
        return
    del builder.inputs["input_ids"]
    width = 2 * builder.config.backbone_hidden_size
    builder.inputs["inputs_embeds"] = builder.floats((builder.batch, 1, width))
    builder.inputs["position_ids"] = builder.full((builder.batch, 1), builder.sequence)
    builder.inputs["shared_kv_states"] = {
        attention.layer_type: tuple(builder.floats(_cached(builder, attention)) for _ in ("key", "value"))
        for attention in (layer.self_attn for layer in builder.model.model.layers)
    }


def _cached(builder: InputBuilder, attention: Any) -> tuple[int, ...]:
    heads = attention.config.num_attention_heads // attention.num_key_value_groups
    return (builder.batch, heads, builder.sequence, attention.head_dim)


@quirks.changes_inputs("jev")
def jev(builder: InputBuilder) -> None:
    """JEV decides questions at marked tokens of one prompt."""
    questions, options = (1, 2), 2
    builder.inputs = {
        "input_ids": builder.tokens((1, builder.sequence)),
        "marks": builder.full(questions, builder.sequence),
        "num_options": builder.full(questions, options),
        "question_type_ids": builder.full(questions, 0),
    }


@quirks.changes_inputs("longformer")
def longformer(builder: InputBuilder) -> None:
    """It attends globally to a question, which it finds by the separators after it."""
    length = 5
    if builder.name.endswith("ForQuestionAnswering"):
        for position in (length, length + 1, -1):
            builder.inputs["input_ids"][:, position] = builder.config.sep_token_id


@quirks.changes_inputs("luke")
def luke(builder: InputBuilder) -> None:
    """LUKE reads entities beside the words: each has an id, and the positions of the words that mention it."""
    mentioned = 3
    entities = 2 if builder.name.endswith("PairClassification") else 1
    # Several choices are several texts a sample.
    shape = (*builder.inputs["input_ids"].shape[:-1], entities)
    builder.inputs["entity_ids"] = builder.integers(shape, 1, builder.config.entity_vocab_size)
    builder.inputs["entity_attention_mask"] = builder.ones(shape)
    builder.inputs["entity_position_ids"] = builder.integers((*shape, mentioned), 1, builder.sequence)
    for name in ("entity_start_positions", "entity_end_positions"):
        if name in builder.takes:
            builder.inputs[name] = builder.integers(shape, 1, builder.sequence)


@quirks.changes_inputs("openai-gpt")
def openai_gpt(builder: InputBuilder) -> None:
    """Its double heads read several texts a sample, without a mask: its tokenizer's texts of one length need none."""
    if builder.inputs["input_ids"].dim() > 2:
        del builder.inputs["attention_mask"]


@quirks.changes_inputs("rag")
def rag(builder: InputBuilder) -> None:
    """Without a retriever: the documents that one would have found, as texts with the question, and their scores."""
    documents = builder.config.n_docs
    texts = (builder.batch * documents, builder.sequence)
    vocabulary = builder.config.generator.vocab_size
    builder.inputs["context_input_ids"] = builder.tokens(texts, vocabulary=vocabulary)
    builder.inputs["context_attention_mask"] = builder.ones(texts)
    builder.inputs["doc_scores"] = builder.floats((builder.batch, documents))
    if builder.train:
        builder.inputs["reduce_loss"] = True


@quirks.changes_inputs("reformer")
def reformer(builder: InputBuilder) -> None:
    """It trains on texts as long as its axial positions multiply to."""
    if not (builder.train and builder.config.axial_pos_embds):
        return
    length = math.prod(builder.config.axial_pos_shape)
    builder.inputs["input_ids"] = builder.tokens((builder.batch, length))
    builder.inputs["attention_mask"] = builder.ones((builder.batch, length))
    if "labels" in builder.inputs and builder.inputs["labels"].dim() == 2:
        builder.inputs["labels"] = builder.inputs["input_ids"].clone()


@quirks.changes_inputs("splinter")
def splinter(builder: InputBuilder) -> None:
    """Splinter answers at a question token in the text."""
    builder.inputs["input_ids"][..., 1] = builder.config.question_token_id
