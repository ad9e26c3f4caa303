"""Gemma 3: the features of an image are pooled to a square number, which the default vision part has too few for."""

from __future__ import annotations

import math
from typing import Any


def complete(config: Any) -> None:
    vision = config.vision_config
    if vision.image_size // vision.patch_size < math.isqrt(config.mm_tokens_per_image):
        vision.image_size, vision.patch_size = 896, 14


def shrink(config: Any) -> None:
    """A quarter of the patches along each edge, as at full size."""
    side = config.vision_config.image_size // config.vision_config.patch_size
    config.mm_tokens_per_image = (side // 4) ** 2
