"""PP-OCR's mobile text detector: the bare model calls its image `hidden_states`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs.geometry import image_size
from dynalyze.capture.hf.inputs.values import floats

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made


def pixels(made: Made) -> None:
    if made.needs("hidden_states"):
        made.inputs["hidden_states"] = floats(made, (made.batch, 3, *image_size(made.config)))
