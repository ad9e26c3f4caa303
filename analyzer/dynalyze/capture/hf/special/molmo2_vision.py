"""The vision part of Molmo 2 alone: crops, each a row of patches."""

from __future__ import annotations

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats


def pixels(made: Made) -> None:
    config = made.config
    width = config.num_channels * config.patch_size**2
    made.inputs["pixel_values"] = floats(made, (made.batch, config.num_position_embeddings, width))
