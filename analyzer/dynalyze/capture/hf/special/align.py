"""ALIGN: texts are projected to the width that the image encoder's last stage has."""

from __future__ import annotations

from typing import Any

_DIVISOR_OF_WIDTHS = 8


def shrink(config: Any) -> None:
    vision = config.vision_config
    width = vision.out_channels[-1] * vision.width_coefficient
    config.projection_dim = round(width / _DIVISOR_OF_WIDTHS) * _DIVISOR_OF_WIDTHS
