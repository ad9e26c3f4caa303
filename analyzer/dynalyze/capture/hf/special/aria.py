"""Aria: how many tokens an image becomes is told for each number of patches, none of which the default images have."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    vision = config.vision_config
    if _patches(vision) not in config.projector_patch_to_query_dict:
        vision.image_size, vision.patch_size = 490, 14


def shrink(config: Any) -> None:
    vision = config.vision_config
    vision.image_size = 8 * vision.patch_size
    config.projector_patch_to_query_dict = {_patches(vision): 16}
    config.max_value_projector_patch_to_query_dict = 16


def _patches(vision: Any) -> int:
    return int(vision.image_size // vision.patch_size) ** 2
