"""PP-OCR's readers see one line of text: low and wide, but high enough for the default backbone's strides."""

from __future__ import annotations

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats

_HEIGHT, _WIDTH = 96, 320


def pixels(made: Made) -> None:
    line(made, _HEIGHT)


def line(made: Made, height: int) -> None:
    made.inputs["pixel_values"] = floats(made, (made.batch, 3, height, _WIDTH))
