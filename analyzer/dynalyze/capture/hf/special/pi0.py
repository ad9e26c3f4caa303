"""PI0: cameras and an instruction for its vision-language part, the robot's state and a noisy action for the other."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import tiles
from dynalyze.capture.hf.inputs.features import count, extractor
from dynalyze.capture.hf.inputs.made import Made, Placeholder
from dynalyze.capture.hf.inputs.probing import untouched
from dynalyze.capture.hf.inputs.values import floats, ones
from dynalyze.capture.hf.request import ModelRequest


def pixels(made: Made) -> None:
    """One camera, its mask, and a placeholder for each of its features."""
    import torch

    made.inputs["pixel_values"] = cameras = tiles.images(made, 1)
    made.inputs["pixel_attention_mask"] = ones(made, cameras.shape[:2], dtype=torch.bool)
    with untouched(made.model):
        features = count(extractor(made.model, "image")(cameras.flatten(0, 1)))
    made.placeholders.append(Placeholder(made.config.vlm_config.image_token_id, features // made.batch))


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    made, config = Made(model, request), model.config
    if "state" in made.takes:
        inputs["state"] = floats(made, (made.batch, config.max_state_dim))
        inputs["noise"] = floats(made, (made.batch, config.chunk_size, config.max_action_dim))
        inputs["timestep"] = floats(made, (made.batch,)).sigmoid()
    elif "action_embeds" in made.takes:
        shape = (made.batch, config.chunk_size + 1, config.dit_config.hidden_size)
        inputs["action_embeds"] = floats(made, shape)
    return inputs
