"""Dots3-Note's audio comes in chunks, each with its length in samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.audio import audio_part

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

# The encoder makes one token of so many frames.
_STRIDE = 8
_TOKENS = 16


def shrink(config: Any) -> None:
    """Three convolutions halve the mel bins, for each of their channels."""
    config.conv_output_size = config.downsample_hidden_size * -(-config.feature_size // _STRIDE)


def sounds(made: Made) -> None:
    """One chunk a sample: `input_features` of (chunks, mel bins, frames) and `chunk_sample_lengths`."""
    part = audio_part(made.config)
    frames = (made.request.sequence or _TOKENS) * _STRIDE
    made.inputs["input_features"] = values.floats(made, (made.batch, part.feature_size, frames))
    made.inputs["chunk_sample_lengths"] = values.full(made, (made.batch,), frames * part.hop_length)
