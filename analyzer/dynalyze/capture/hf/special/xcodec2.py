"""X-Codec 2 hears a sound twice: its waveform, and a spectrogram of pairs of frames for the semantic encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.audio import hop_length

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

_FRAMES = 25


def shrink(config: Any) -> None:
    """What is quantised is the acoustic and the semantic states side by side."""
    config.quantization_dim = config.hidden_size + config.semantic_model_config.hidden_size


def sounds(made: Made) -> None:
    """`input_values` and `input_features` of as many frames, with the masks that the extractor returns."""
    frames = made.request.sequence or _FRAMES
    samples = frames * hop_length(made.config)
    bins = made.config.semantic_model_config.feature_projection_input_dim
    made.inputs["input_values"] = values.floats(made, (made.batch, 1, samples), scale=0.1)
    made.inputs["padding_mask"] = values.ones(made, (made.batch, samples))
    made.inputs["input_features"] = values.floats(made, (made.batch, frames, bins))
    made.inputs["input_features_mask"] = values.ones(made, (made.batch, frames))
