"""MusicGen continues a sound as a text describes it; its decoder reads one row of codes a codebook."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def complete(config: Any) -> None:
    """The codec's bandwidth is that of as many codebooks as the decoder reads."""
    codec = config.audio_encoder
    bits = config.decoder.num_codebooks * codec.frame_rate * codec.codebook_nbits
    codec.target_bandwidths = [bits / 1000]


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    """The model makes the decoder's codes of the waveform; in training they are given, as its trainers do."""
    if not request.train:
        del given["decoder_input_ids"]
        return given
    del given["input_values"], given["padding_mask"]
    return with_codes(model, request, given)


def with_codes(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    """The codes that were written so far, and in training those that come next."""
    made = Made(model, request, given)
    decoder = model.config.decoder
    codes = (made.batch * decoder.num_codebooks, made.sequence)
    given["decoder_input_ids"] = values.integers(made, codes, 0, decoder.vocab_size)
    if request.train:
        labels = (made.batch, made.sequence, decoder.num_codebooks)
        given["labels"] = values.integers(made, labels, 0, decoder.vocab_size)
    return given
