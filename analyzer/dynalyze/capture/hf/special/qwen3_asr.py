"""Qwen3-ASR's encoder takes whole windows of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.audio import audio_part

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made


def complete(config: Any) -> None:
    """The projector gives the text's width."""
    config.audio_config.output_dim = config.text_config.hidden_size


def shrink(config: Any) -> None:
    complete(config)


def sounds(made: Made) -> None:
    """`input_features` of (batch, mel bins, one window of frames) and their mask."""
    if made.wants("input_features"):
        part = audio_part(made.config)
        frames = 2 * part.n_window
        made.inputs["input_features"] = values.floats(made, (made.batch, part.num_mel_bins, frames))
        made.inputs["input_features_mask"] = values.ones(made, (made.batch, frames))
