"""MusicGen Melody's decoder reads one row of tokens a codebook, after a text and a chroma of the melody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.special.musicgen import with_codes as inputs

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

__all__ = ["inputs", "sounds"]


def sounds(made: Made) -> None:
    """`input_features` of (batch, chroma length, chroma bins), each frame of one pitch."""
    import torch

    config = made.config
    pitches = values.integers(made, (made.batch, config.chroma_length), 0, config.num_chroma)
    made.inputs["input_features"] = torch.nn.functional.one_hot(pitches, config.num_chroma).to(made.dtype)
