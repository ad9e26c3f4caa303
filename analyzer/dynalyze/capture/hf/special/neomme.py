"""NeoMME: no encoder; the patches of all images are one list, and each becomes a token."""

from __future__ import annotations

from dynalyze.capture.hf.inputs import patches
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats


def pixels(made: Made) -> None:
    side = patches.grid_side(made)
    made.inputs["pixel_values"] = floats(made, (made.batch * side * side, made.config.patch_dim))
