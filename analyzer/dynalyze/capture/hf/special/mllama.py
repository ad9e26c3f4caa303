"""Llama Vision: text attends to the tiles of its images through a mask of its own."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import ones
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    """Each token attends to each tile of each image."""
    if "input_ids" in inputs and "aspect_ratio_mask" in inputs:
        batch, images, tiles = inputs["aspect_ratio_mask"].shape
        shape = (batch, inputs["input_ids"].shape[-1], images, tiles)
        inputs["cross_attention_mask"] = ones(Made(model, request), shape)
    return inputs
