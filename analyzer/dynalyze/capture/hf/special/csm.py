"""CSM's processor tells where in a sample's waveform each sound ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made, Placeholder

if TYPE_CHECKING:
    from dynalyze.capture.hf.request import ModelRequest

_FRAMES = 8


def sounds(made: Made) -> None:
    """One sound a sample, of whole frames of the codec, and a placeholder for each frame."""
    if not made.wants("input_values_cutoffs"):
        return
    codec = made.config.codec_config
    samples = _FRAMES * int(codec.sampling_rate / codec.frame_rate)
    made.inputs["input_values"] = values.floats(made, (made.batch, 1, samples), scale=0.1)
    made.inputs["input_values_cutoffs"] = values.full(made, (made.batch, 1), samples)
    end = made.config.audio_eos_token_id
    made.placeholders.append(Placeholder(made.config.audio_token_id, _FRAMES, "audio", end=end))


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    """The backbone alone reads frames of codes."""
    if "input_values_cutoffs" in given:
        return given
    made = Made(model, request, given)
    shape = (made.batch, made.sequence, model.config.num_codebooks)
    given["input_ids"] = values.integers(made, shape, 0, model.config.codebook_size)
    return given
