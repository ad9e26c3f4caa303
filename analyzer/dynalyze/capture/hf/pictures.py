"""Makes the images and videos of a small variant small where they are large by default."""

from __future__ import annotations

from typing import Any

_LARGE = 256
_FACTOR = 4
# Sizes in pixels, and sizes in patches that follow from them.
_PIXELS = ("image_size",)
_PATCHES = ("image_embedding_size", "backbone_feature_sizes")
# Sizes of whole images that are cut into tiles of the image size.
_GRIDS = "image_grid_pinpoints"
# Counts that a small image or video cannot fill, with what is left of them.
_COUNTS = {"num_queries": 50, "num_frames": 8, "frames_per_clip": 8}


def cut(parts: list[Any]) -> None:
    """Cut the images, videos and object queries of all parts in place."""
    for part in parts:
        for name, most in _COUNTS.items():
            count = vars(part).get(name)
            if isinstance(count, int) and count > most:
                setattr(part, name, most)
    _cut_images(parts)


def _cut_images(parts: list[Any]) -> None:
    """Divide the image sizes if every large one can be divided: one part's image is another's."""
    large = [part for part in parts if _is_large(part)]
    if not large or not all(_divides(part) for part in large):
        return
    for part in large:
        for name in (*_PIXELS, *_PATCHES):
            if vars(part).get(name) is not None:
                setattr(part, name, _divided(vars(part)[name]))
    for part in parts:
        for name in ("backbone_feature_sizes", _GRIDS):
            if part not in large and vars(part).get(name):
                setattr(part, name, _divided(vars(part)[name]))


def _is_large(part: Any) -> bool:
    sizes = _numbers(vars(part).get("image_size"))
    return bool(sizes) and max(sizes) > _LARGE


def _divides(part: Any) -> bool:
    edges = _numbers(vars(part).get("patch_size")) or [1]
    return all(size % (_FACTOR * edge) == 0 for size in _numbers(vars(part)["image_size"]) for edge in edges)


def _numbers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return _numbers(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [number for each in value for number in _numbers(each)]
    return [value] if isinstance(value, int) and not isinstance(value, bool) else []


def _divided(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _divided(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_divided(each) for each in value)
    return value // _FACTOR if isinstance(value, int) else value
