"""CLVP conditions the text on a spectrogram whose mel bins come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

_FRAMES = 128


def complete(config: Any) -> None:
    """The speech encoder reads the tokens that the decoder writes; its default knows fewer."""
    config.speech_config.vocab_size = max(config.speech_config.vocab_size, config.decoder_config.vocab_size)


def sounds(made: Made) -> None:
    """`input_features` of (batch, mel bins, frames)."""
    if made.wants("input_features"):
        bins = made.config.decoder_config.feature_size
        made.inputs["input_features"] = values.floats(made, (made.batch, bins, _FRAMES))
