"""The sizes of images and videos that a configuration asks for."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.parts import first

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
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value, value
    if isinstance(value, dict):
        if "height" in value and "width" in value:
            return int(value["height"]), int(value["width"])
        edges = list(value.values())
        return (int(edges[0]), int(edges[0])) if edges else None
    sizes = [int(each) for each in value]
    return (sizes[-2], sizes[-1]) if len(sizes) >= 2 else (sizes[0], sizes[0])


def image_size(config: Any, full_size: bool = False) -> tuple[int, int]:
    """Height and width of the images: the configuration's own word, that of its vision part, or a usual size."""
    for part in parts_that_see(config):
        told = pair(first(part, "image_size", "img_size", "input_size", "crop_size"))
        if told is not None:
            return told
    usual = _DETECTOR if hasattr(config, "num_queries") else _USUAL
    return (usual, usual) if full_size else (_SMALL, _SMALL)


def channels(config: Any) -> int:
    for part in reversed(parts_that_see(config)):
        told = first(part, "num_channels", "in_channels", "in_chans", "num_image_channels")
        if isinstance(told, int):
            return told
    return 3


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
    for part in parts_that_see(config):
        told = first(part, "num_frames", "frames_per_clip", "num_video_frames", "frames_per_video")
        if isinstance(told, int):
            return told
    return None


def frames_or_few(config: Any) -> int:
    return frames(config) or _ANY_FRAMES


def parts_that_see(config: Any) -> list[Any]:
    """The configurations from the whole to its innermost vision part."""
    found = [config]
    while hasattr(inner := first(found[-1], *_VISION_PARTS), "to_dict"):
        found.append(inner)
    return found
