"""V-JEPA 2: videos of fewer frames for the small variant."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.frames_per_clip = 4 * config.tubelet_size
    config.crop_size = 4 * config.patch_size
