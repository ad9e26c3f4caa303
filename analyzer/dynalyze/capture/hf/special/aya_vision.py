"""Aya Vision: its connector folds squares of patches, which the default image does not divide into."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    vision = config.vision_config
    odd = vision.image_size // vision.patch_size % config.downsample_factor
    vision.image_size -= odd * vision.patch_size
    vision.image_size -= vision.image_size % vision.patch_size
