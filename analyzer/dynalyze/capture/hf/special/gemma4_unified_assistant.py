"""A drafting model: it reads embeddings and states of the model it assists, and attends to that model's cache."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    """One token to draft from, and the keys and values of each kind of attention for the text before it."""
    made = Made(model, request, given)
    if not made.wants("shared_kv_states"):
        return given
    del given["input_ids"]
    given["inputs_embeds"] = values.floats(made, (made.batch, 1, 2 * model.config.backbone_hidden_size))
    given["position_ids"] = values.full(made, (made.batch, 1), made.sequence)
    given["shared_kv_states"] = {
        attention.layer_type: tuple(values.floats(made, _kept(made, attention)) for _ in ("key", "value"))
        for attention in (layer.self_attn for layer in model.model.layers)
    }
    return given


def _kept(made: Made, attention: Any) -> tuple[int, ...]:
    heads = attention.config.num_attention_heads // attention.num_key_value_groups
    return (made.batch, heads, made.sequence, attention.head_dim)
