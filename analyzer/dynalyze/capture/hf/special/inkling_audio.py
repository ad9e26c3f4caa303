"""Inkling reads spectrograms whose values are quantised: one code a mel bin and frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.audio import audio_part

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

_FRAMES = 16


def sounds(made: Made) -> None:
    """`audio_input_ids` of (batch, frames, mel bins), with their mask beside text."""
    if not made.wants("audio_input_ids"):
        return
    part = audio_part(made.config)
    shape = (made.batch, made.request.sequence or _FRAMES, part.num_codebooks)
    made.inputs["audio_input_ids"] = values.integers(made, shape, 0, part.codebook_size)
    if made.wants("audio_input_ids_mask"):
        made.inputs["audio_input_ids_mask"] = values.ones(made, shape[:2])
