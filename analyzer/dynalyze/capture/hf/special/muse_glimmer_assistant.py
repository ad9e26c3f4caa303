"""A drafting model: it denoises a block of tokens after the hidden states of the model it assists."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    block = config.block_size
    layers = len(config.target_layer_ids)
    given["noise_embeds"] = values.floats(made, (made.batch, block, config.hidden_size))
    given["context_hidden_states"] = values.floats(made, (made.batch, made.sequence, layers * config.hidden_size))
    given["attention_mask"] = values.ones(made, (made.batch, made.sequence + block))
    return given
