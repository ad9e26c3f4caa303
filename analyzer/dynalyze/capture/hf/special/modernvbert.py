"""ModernVBERT: its connector folds squares of patches, which the default image does not divide into."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    vision, factor = config.vision_config, config.pixel_shuffle_factor
    if vision.image_size // vision.patch_size % factor:
        vision.image_size = vision.patch_size * 4 * factor
