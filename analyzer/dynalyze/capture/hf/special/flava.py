"""FLAVA: to learn from an image it also sees it in the size of its codebook, and to learn from a text also masked."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import geometry
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats
from dynalyze.capture.hf.request import ModelRequest

_CODEBOOK_SIZE = 112


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request)
    if "codebook_pixel_values" in made.takes:
        shape = (made.batch, geometry.channels(model.config.image_codebook_config), _CODEBOOK_SIZE, _CODEBOOK_SIZE)
        inputs["codebook_pixel_values"] = floats(made, shape)
        inputs["input_ids_masked"] = inputs["input_ids"].clone()
    return inputs
