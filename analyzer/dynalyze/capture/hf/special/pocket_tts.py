"""Pocket TTS speaks a text with the voice of a prompt: latents of its audio tokenizer, a placeholder for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Placeholder

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made
    from dynalyze.capture.hf.request import ModelRequest

_FRAMES = 8


def sounds(made: Made) -> None:
    """`audio_prompt_latents` of (batch, frames, latent width) and their mask."""
    config = made.config
    shape = (made.batch, _FRAMES, values.first(config, "audio_prompt_dim", "latent_dim"))
    made.inputs["audio_prompt_latents"] = values.floats(made, shape)
    made.inputs["audio_prompt_latents_mask"] = values.ones(made, shape[:2])
    begin = getattr(config, "audio_prompt_bos_token_id", None)
    made.placeholders.append(Placeholder(config.audio_prompt_token_id, _FRAMES, "audio", begin=begin))


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    """Its labels are latents of a recording with placeholders of their own, which no token ids stand for."""
    given.pop("labels", None)
    return given
