"""The sizes of images and videos that a configuration asks for, and pixels as models read them: whole images, tiles or
patches of them, beside what tells how they were cut.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, extractor, taken_by, untouched
from dynalyze.capture.libraries.hf.parts import first, first_number

# Tokens of text along the edge of an image: small, and about 450 pixels for a model at full size.
_SMALL_SIDE = 4
_FULL_SIDE = 16
# Where a configuration of several parts keeps the one that sees.
_VISION_PARTS = (
    "vision_config", "vlm_config", "visual_config", "image_config", "image_encoder_config", "encoder",
    "backbone_config", "vq_config", "vit_config", "sam_config",
)  # fmt: skip
# For models that take any size: small, and what processors make of an image for a model at full size, where detectors
# want more to find; all are multiples of the usual total stride of 32.
_SMALL, _USUAL, _DETECTOR = 64, 224, 640
_ANY_FRAMES = 4


def grid_side(builder: InputBuilder) -> int:
    """Patches along an edge of an image."""
    return (_FULL_SIDE if builder.request.full_size else _SMALL_SIDE) * merge_size(builder.config)


def add_grid(builder: InputBuilder, pixels: str, grid: str, times: int = 1) -> None:
    """The patches of all images in one list, and `grid`: for each image its patches in time, height and width."""
    side = grid_side(builder)
    builder.inputs[grid] = torch.tensor([[times, side, side]] * builder.batch, device=builder.device)
    for name in ("merge_sizes", grid.replace("grid_thw", "merge_sizes")):
        if builder.wants(name):
            builder.inputs[name] = builder.full((builder.batch,), merge_size(builder.config))
    patches = builder.batch * times * side * side
    builder.inputs[pixels] = _accepted(builder, pixels, patches)


def add_packed(builder: InputBuilder) -> None:
    """The patches of each image in a padded row, with a mask of the real ones and the grid's height and width."""
    side = grid_side(builder)
    builder.inputs["pixel_values"] = builder.floats((builder.batch, side * side, patch_values(builder)))
    builder.inputs["spatial_shapes"] = builder.full((builder.batch, 2), side)
    if "pixel_attention_mask" in builder.takes:
        builder.inputs["pixel_attention_mask"] = builder.ones((builder.batch, side * side))


def add_positioned(builder: InputBuilder, positions: str) -> None:
    """The patches of each image in a row, with the column and line of each patch."""
    side = grid_side(builder)
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side)).flip(-1)
    builder.inputs["pixel_values"] = builder.floats((builder.batch, side * side, patch_values(builder)))
    builder.inputs[positions] = places.expand(builder.batch, -1, -1).contiguous().to(builder.device)


def add_flattened(builder: InputBuilder) -> None:
    """The patches of each image in a row, the line and column of each as its first two values."""
    side = grid_side(builder)
    values = builder.floats((builder.batch, side * side, patch_values(builder)))
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side)) + 1
    builder.inputs["flattened_patches"] = torch.cat([places.expand(builder.batch, -1, -1).to(values), values], dim=-1)


def patch_values(builder: InputBuilder) -> int:
    """How many values one patch holds."""
    projection = patch_projection(builder.model)
    if projection is None:
        return channels(builder.config) * patch_size(builder.config) ** 2
    if hasattr(projection, "in_features"):
        return int(projection.in_features)
    return math.prod((projection.in_channels, *projection.kernel_size))


def patch_projection(model: Any) -> Any:
    """The layer of the vision part that turns a patch into a vector: the first projection that is named after it, or
    the first of all.
    """
    leaves = [
        (name, module)
        for name, module in encoder(model).named_modules()
        if hasattr(module, "in_features") or hasattr(module, "kernel_size")
    ]
    named = [module for name, module in leaves if "embed" in name]
    return next(iter(named + [module for _, module in leaves]), None)


def encoder(model: Any) -> Any:
    """The part that reads images: transformers' own answer where it has one, else the model."""
    try:
        return model.get_encoder(modality="image") or model
    except (AttributeError, TypeError, ValueError):
        return model


def _accepted(builder: InputBuilder, pixels: str, patches: int) -> torch.Tensor:
    """Patches as rows of values; as images of their own where the model refuses rows."""
    shapes: list[tuple[int, ...]] = [(patches, patch_values(builder))]
    projection = patch_projection(builder.model)
    if hasattr(projection, "kernel_size"):
        image = (projection.in_channels, *projection.kernel_size)
        shapes += [(patches, *image), (1, patches, *image)]
    values = builder.floats(shapes[0])
    for shape in shapes:
        reshaped = values.reshape(shape)
        if len(shapes) == 1 or _reads(builder, pixels, {**builder.inputs, pixels: reshaped}):
            return reshaped
    return values


def _reads(builder: InputBuilder, pixels: str, inputs: dict[str, Any]) -> bool:
    """Whether the vision part takes these. A failure for another reason shows when the model itself is called."""
    read = extractor(builder.model, "video" if pixels == "pixel_values_videos" else "image") or builder.model
    with untouched(builder.model):
        try:
            read(**taken_by(read, inputs))
        except Exception:
            return False
    return True


def images(builder: InputBuilder, *extra: int) -> torch.Tensor:
    """A batch of whole images, `extra` dimensions between batch and channels."""
    height, width = image_size(builder.config, builder.request.full_size)
    return builder.floats((builder.batch, *extra, channels(builder.config), height, width))


def add_several(builder: InputBuilder) -> None:
    """One image a sample, with a dimension for further ones, and the mask of the pixels that are no padding."""
    builder.inputs["pixel_values"] = pixels = images(builder, 1)
    builder.inputs["pixel_attention_mask"] = builder.ones((*pixels.shape[:2], *pixels.shape[-2:]))


def add_sized(builder: InputBuilder) -> None:
    """Images beside their sizes in pixels. Where the configuration has grids to choose from they are in tiles after a
    small whole; elsewhere images may have any size.
    """
    height, width = image_size(builder.config, builder.request.full_size)
    grids = getattr(builder.config, "image_grid_pinpoints", None)
    if not grids:
        size = (grid_side(builder) * patch_size(builder.config),) * 2
        builder.inputs["pixel_values"] = builder.floats((builder.batch, channels(builder.config), *size))
    else:
        size = min(((int(tall), int(wide)) for tall, wide in grids), key=lambda grid: grid[0] * grid[1])
        tiles = -(-size[0] // height) * -(-size[1] // width)
        builder.inputs["pixel_values"] = images(builder, tiles + 1)
    builder.inputs["image_sizes"] = torch.tensor([size] * builder.batch, device=builder.device)


def add_by_aspect(builder: InputBuilder) -> None:
    """One image a sample in as many tiles as there may be, with the id of that cut; no tile is padding."""
    part = parts_that_see(builder.config)[-1]
    tiles = int(first(part, "max_num_tiles", default=4))
    # The cut into most tiles among the supported ones, a square where there is one.
    cuts = first(part, "supported_aspect_ratios", default=[[1, 1]])
    place = max(range(len(cuts)), key=lambda each: (cuts[each][0] * cuts[each][1], -abs(cuts[each][0] - cuts[each][1])))
    builder.inputs["pixel_values"] = images(builder, 1, tiles)
    builder.inputs["aspect_ratio_ids"] = builder.full((builder.batch, 1), 1 + place)
    builder.inputs["aspect_ratio_mask"] = builder.ones((builder.batch, 1, tiles))


def add_strip(builder: InputBuilder) -> None:
    """All patches of all images side by side in one strip, with the height and width of each image in patches."""
    side, edge = grid_side(builder), patch_size(builder.config)
    shape = (1, channels(builder.config), edge, builder.batch * side * side * edge)
    builder.inputs["pixel_values"] = builder.floats(shape)
    builder.inputs["target_sizes"] = builder.full((builder.batch, 2), side, dtype=torch.int32)


def add_local_views(builder: InputBuilder) -> None:
    """Beside each whole image two views of its halves, three quarters of its size each."""
    height, _ = image_size(builder.config, builder.request.full_size)
    patch = patch_size(builder.config)
    edge = height // patch * 3 // 4 * patch
    shape = (2 * builder.batch, channels(builder.config), edge, edge)
    builder.inputs["pixel_values_local"] = builder.floats(shape)
    builder.inputs["num_local_patches"] = [2] * builder.batch
    if "patches_grid" in builder.takes:
        builder.inputs["patches_grid"] = [[2, 1]] * builder.batch


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
        sizes = pair(first(part, "image_size", "img_size", "input_size", "crop_size"))
        if sizes is not None:
            return sizes
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
    sizes = (pair(first(part, *names)) for part in reversed(parts_that_see(config)))
    return next((size[-1] for size in sizes if size is not None), otherwise)


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
