"""Gemma 4's audio encoder has its number of mel bins in its code alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

BINS = 128
_FRAMES = 128
# The encoder makes one token of so many frames.
_STRIDE = 4


def sounds(made: Made) -> None:
    """`input_features` of (batch, frames, 128) and their mask, which stands beside the text's in a larger model."""
    import torch

    if not made.wants("input_features"):
        return
    frames = made.request.sequence * _STRIDE if made.request.sequence else _FRAMES
    made.inputs["input_features"] = values.floats(made, (made.batch, frames, BINS))
    mask = "input_features_mask" if "input_features_mask" in made.takes else "attention_mask"
    made.inputs[mask] = values.ones(made, (made.batch, frames), dtype=torch.bool)
