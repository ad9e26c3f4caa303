"""DeepSeek-VL hybrid: each image in two resolutions, one for each of its encoders."""

from __future__ import annotations

from dynalyze.capture.hf.inputs import geometry, tiles
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats


def pixels(made: Made) -> None:
    made.inputs["pixel_values"] = tiles.images(made)
    fine = made.config.high_res_vision_config
    height, width = geometry.image_size(fine)
    made.inputs["high_res_pixel_values"] = floats(made, (made.batch, geometry.channels(fine), height, width))
