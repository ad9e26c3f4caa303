"""The talker of Qwen3-Omni starts from embeddings made of the thinker's; the thinker's tokens tell the positions."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def complete(config: Any) -> None:
    """The side of the image patches that are one token, which it leaves to the thinker's configuration."""
    if not hasattr(config, "spatial_merge_size"):
        config.spatial_merge_size = 2


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    if "talker_input_ids" not in made.takes:
        return given
    width = config.text_config.hidden_size
    given["talker_input_ids"] = given.pop("input_ids")
    given["inputs_embeds"] = values.floats(made, (made.batch, made.sequence, width))
    return given
