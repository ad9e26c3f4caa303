"""IDEFICS: several images a sample, and a mask that tells which token attends to which of them."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import tiles
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import ones
from dynalyze.capture.hf.request import ModelRequest


def pixels(made: Made) -> None:
    if made.wants("pixel_values"):
        made.inputs["pixel_values"] = tiles.images(made, 1)


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    """Each token attends to the one image."""
    if "pixel_values" in inputs:
        inputs["image_attention_mask"] = ones(Made(model, request), (*inputs["input_ids"].shape, 1))
    return inputs
