"""Moshi hears its user and itself: a waveform of each, and a token of text for every frame of them."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def complete(config: Any) -> None:
    """The vocabulary of codes is that of the codec, where none is told."""
    if config.audio_vocab_size is None:
        config.audio_vocab_size = config.audio_encoder_config.codebook_size
    shrink(config)


def shrink(config: Any) -> None:
    """The depth decoder reads the states of the main one, and the same tokens."""
    depth = config.depth_decoder_config
    depth.input_size = config.hidden_size
    depth.vocab_size = config.vocab_size
    depth.audio_vocab_size = config.audio_vocab_size


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    if not made.wants("user_input_values"):
        return given
    codec = model.config.audio_encoder_config
    samples = made.sequence * int(codec.sampling_rate / codec.frame_rate)
    for name in ("user_input_values", "moshi_input_values"):
        given[name] = values.floats(made, (made.batch, codec.audio_channels, samples), scale=0.1)
    if request.train:
        given["text_labels"] = given["input_ids"].clone()
    return given
