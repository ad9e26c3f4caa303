"""EfficientLoFTR: reads pairs of images, its base model too."""

from __future__ import annotations

from dynalyze.capture.hf.inputs import tiles
from dynalyze.capture.hf.inputs.made import Made


def pixels(made: Made) -> None:
    if made.wants("pixel_values"):
        made.inputs["pixel_values"] = tiles.images(made, 2)
