"""Voxtral Realtime adds an embedding of audio to each token of text, so both have one length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made


def sounds(made: Made) -> None:
    """`input_features` of as many frames as the text's tokens take, and the delay that its processor returns."""
    if made.wants("input_features"):
        frames = made.sequence * made.config.audio_length_per_tok
        bins = made.config.audio_config.num_mel_bins
        made.inputs["input_features"] = values.floats(made, (made.batch, bins, frames))
        made.inputs["num_delay_tokens"] = made.config.default_num_delay_tokens
