"""MOSS tells the length of each sound in samples beside its chunks of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made


def sounds(made: Made) -> None:
    """`padding_mask` of one whole chunk a sample."""
    if made.wants("padding_mask"):
        made.inputs["padding_mask"] = values.ones(made, (made.batch, made.config.audio_chunk_size))
