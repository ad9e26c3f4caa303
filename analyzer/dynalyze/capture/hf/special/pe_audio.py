"""PE-Audio's waveforms are whole frames of its codec, with a mask of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.audio import audio_part, hop_length

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

_FRAMES = 8


def sounds(made: Made) -> None:
    """`input_values` of (batch, 1, samples) and `padding_mask`."""
    import torch

    samples = (made.request.sequence or _FRAMES) * hop_length(audio_part(made.config).dac_config)
    made.inputs["input_values"] = values.floats(made, (made.batch, 1, samples), scale=0.1)
    made.inputs["padding_mask"] = values.ones(made, (made.batch, samples), dtype=torch.bool)
