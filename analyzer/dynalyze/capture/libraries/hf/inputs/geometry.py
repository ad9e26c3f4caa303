"""The sizes of images and videos that a configuration asks for."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.libraries.hf.parts import first, first_number

# Where a configuration of several parts keeps the one that sees.
_VISION_PARTS = (
    "vision_config", "vlm_config", "visual_config", "image_config", "image_encoder_config", "encoder",
    "backbone_config", "vq_config", "vit_config", "sam_config",
)  # fmt: skip
# For models that take any size: small, and what processors make of an image for a model at full size, where detectors
# want more to find; all are multiples of the usual total stride of 32.
_SMALL, _USUAL, _DETECTOR = 64, 224, 640
_ANY_FRAMES = 4


def pair(value: Any) -> tuple[int, int] | None:
    """A height and a width from the ways in which configurations write them."""
    if isinstance(value, bool) or value is None or value == {}:
        return None
    if isinstance(value, dict):
        edges = ("height", "width") if {"height", "width"} <= value.keys() else list(value)[:1]
        value = [value[edge] for edge in edges]
    sizes = [int(each) for each in (value if isinstance(value, (list, tuple)) else [value])]
    return (sizes[-2:] * 2)[0], sizes[-1]


def image_size(config: Any, full_size: bool = False) -> tuple[int, int]:
    """Height and width of the images: the configuration's own word, that of its vision part, or a usual size."""
    for part in parts_that_see(config):
        told = pair(first(part, "image_size", "img_size", "input_size", "crop_size"))
        if told is not None:
            return told
    usual = _DETECTOR if hasattr(config, "num_queries") else _USUAL
    return (usual, usual) if full_size else (_SMALL, _SMALL)


def channels(config: Any) -> int:
    names = ("num_channels", "in_channels", "in_chans", "num_image_channels")
    return first_number(reversed(parts_that_see(config)), *names) or 3


def patch_size(config: Any) -> int:
    """The edge of a patch; 16 where the configuration has none."""
    return _edge(config, 16, "patch_size", "vision_patch_size", "spatial_patch_size")


def merge_size(config: Any) -> int:
    """How many patches along an edge become one token of text."""
    names = ("spatial_merge_size", "merge_kernel_size", "merge_size", "downsample_factor", "pooling_kernel_size")
    return _edge(config, 1, *names)


def _edge(config: Any, otherwise: int, *names: str) -> int:
    """The width that the innermost part tells under one of these names."""
    told = (pair(first(part, *names)) for part in reversed(parts_that_see(config)))
    return next((size[-1] for size in told if size is not None), otherwise)


def frames(config: Any) -> int | None:
    """How many frames a video has; None where the configuration says nothing of videos."""
    names = ("num_frames", "frames_per_clip", "num_video_frames", "frames_per_video")
    return first_number(parts_that_see(config), *names)


def frames_or_few(config: Any) -> int:
    return frames(config) or _ANY_FRAMES


def parts_that_see(config: Any) -> list[Any]:
    """The configurations from the whole to its innermost vision part."""
    found = [config]
    while hasattr(inner := first(found[-1], *_VISION_PARTS), "to_dict"):
        found.append(inner)
    return found
