"""Idefics3: its connector folds squares of patches, which the default image does not divide into."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    vision = config.vision_config
    if vision.image_size // vision.patch_size % config.scale_factor:
        vision.image_size = vision.patch_size * 4 * config.scale_factor
