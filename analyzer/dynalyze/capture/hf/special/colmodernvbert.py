"""ColModernVBERT: ModernVBERT's images in a row, without the mask that its own processor makes."""

from __future__ import annotations

from dynalyze.capture.hf.inputs import tiles
from dynalyze.capture.hf.inputs.made import Made


def pixels(made: Made) -> None:
    made.inputs["pixel_values"] = tiles.images(made, 1)
