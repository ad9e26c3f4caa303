"""Muse Spark's audio encoder takes whole patches of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.audio import audio_part

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made


def shrink(config: Any) -> None:
    """One layer a width: its pyramid is not cut."""
    config.num_hidden_layers = len(config.hidden_sizes)


def sounds(made: Made) -> None:
    """`input_values` of (batch, samples), with the mask that a larger model takes."""
    samples = made.sequence * audio_part(made.config).samples_per_token
    made.inputs["input_values"] = values.floats(made, (made.batch, samples), scale=0.1)
    if made.wants("input_values_mask"):
        made.inputs["input_values_mask"] = values.ones(made, (made.batch, samples))
