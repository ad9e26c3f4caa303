"""InstructBLIP: BLIP-2's placeholders, and the instruction once more for the Q-Former."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import ones, tokens
from dynalyze.capture.hf.request import ModelRequest
from dynalyze.capture.hf.special.blip_2 import complete as complete
from dynalyze.capture.hf.special.blip_2 import pixels as pixels


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request)
    if "qformer_input_ids" in made.takes:
        shape = (made.batch, made.sequence)
        inputs["qformer_input_ids"] = tokens(made, shape, model.config.qformer_config.vocab_size)
        inputs["qformer_attention_mask"] = ones(made, shape)
    return inputs
