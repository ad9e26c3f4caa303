"""Granite Speech 5 stacks two frames of mel bins and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.audio import audio_part

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

_STACKED = 4
_FRAMES = 64


def sounds(made: Made) -> None:
    """`input_features` of (batch, pairs of frames, four times the mel bins) and their mask."""
    frames = made.request.sequence or _FRAMES
    bins = audio_part(made.config).num_mel_bins
    made.inputs["input_features"] = values.floats(made, (made.batch, frames, _STACKED * bins))
    made.inputs["attention_mask"] = values.ones(made, (made.batch, frames))
