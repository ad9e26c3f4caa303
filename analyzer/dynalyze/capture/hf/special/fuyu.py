"""Fuyu: no encoder; the patches of an image go straight into the text."""

from __future__ import annotations

from dynalyze.capture.hf.inputs import patches
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats


def pixels(made: Made) -> None:
    if made.wants("pixel_values"):
        side = patches.grid_side(made)
        width = made.config.num_channels * made.config.patch_size**2
        made.inputs["pixel_values"] = floats(made, (made.batch, side * side, width))
