"""SegGPT: an image to segment beside an example with its mask, each half of what the encoder sees."""

from __future__ import annotations

from dynalyze.capture.hf.inputs import geometry
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats


def pixels(made: Made) -> None:
    height, width = geometry.image_size(made.config)
    for name in ("pixel_values", "prompt_pixel_values", "prompt_masks"):
        made.inputs[name] = floats(made, (made.batch, made.config.num_channels, height // 2, width))
