"""Perceiver reads an array of any modality; without a preprocessor, its values as they are. Optical flow has one."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

_FRAMES = 2
# Three by three pixels of three colours around each pixel.
_PATCH_VALUES = 27
_SMALL_FRAME = (32, 48)


def shrink(config: Any) -> None:
    """Frames of which each pixel is one element of the array."""
    config.train_size = list(_SMALL_FRAME)


def complete(config: Any) -> None:
    """Fourier features give an image a width that no number of heads but one divides, as in the released model."""
    if "ForImageClassificationFourier" in str(config.architectures):
        config.num_cross_attention_heads = 1


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    if made.name.endswith("ForOpticalFlow"):
        frames = (made.batch, _FRAMES, _PATCH_VALUES, *model.config.train_size)
        given["inputs"] = values.floats(made, frames)
    if made.needs("inputs"):
        given["inputs"] = values.floats(made, (made.batch, made.sequence, model.config.d_model))
        given["attention_mask"] = values.ones(made, (made.batch, made.sequence))
    return given
