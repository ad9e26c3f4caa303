"""ColQwen2: Qwen2-VL's patches, a padded row of them for each image."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    """After the placeholders were counted on the patches of all images in one list."""
    pixels = inputs["pixel_values"]
    inputs["pixel_values"] = pixels.view(Made(model, request).batch, -1, pixels.shape[-1])
    return inputs
