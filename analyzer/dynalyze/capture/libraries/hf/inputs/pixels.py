"""Pixels as models read them: whole images, tiles or patches of them, beside what tells how they were cut."""

from __future__ import annotations

import math
from typing import Any

import torch

from dynalyze.capture.libraries.hf.inputs import geometry
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, extractor, taken_by, untouched
from dynalyze.capture.libraries.hf.parts import first

# Tokens of text along the edge of an image: small, and about 450 pixels for a model at full size.
_SMALL_SIDE = 4
_FULL_SIDE = 16


def grid_side(builder: InputBuilder) -> int:
    """Patches along an edge of an image."""
    return (_FULL_SIDE if builder.request.full_size else _SMALL_SIDE) * geometry.merge_size(builder.config)


def add_grid(builder: InputBuilder, pixels: str, grid: str, times: int = 1) -> None:
    """The patches of all images in one list, and `grid`: for each image its patches in time, height and width."""
    side = grid_side(builder)
    builder.inputs[grid] = torch.tensor([[times, side, side]] * builder.batch, device=builder.device)
    for name in ("merge_sizes", grid.replace("grid_thw", "merge_sizes")):
        if builder.wants(name):
            builder.inputs[name] = builder.full((builder.batch,), geometry.merge_size(builder.config))
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
        return geometry.channels(builder.config) * geometry.patch_size(builder.config) ** 2
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
    height, width = geometry.image_size(builder.config, builder.request.full_size)
    return builder.floats((builder.batch, *extra, geometry.channels(builder.config), height, width))


def add_several(builder: InputBuilder) -> None:
    """One image a sample, with a dimension for further ones, and the mask of the pixels that are no padding."""
    builder.inputs["pixel_values"] = pixels = images(builder, 1)
    builder.inputs["pixel_attention_mask"] = builder.ones((*pixels.shape[:2], *pixels.shape[-2:]))


def add_sized(builder: InputBuilder) -> None:
    """Images beside their sizes in pixels. Where the configuration has grids to choose from they are in tiles after a
    small whole; elsewhere images may have any size.
    """
    height, width = geometry.image_size(builder.config, builder.request.full_size)
    grids = getattr(builder.config, "image_grid_pinpoints", None)
    if not grids:
        size = (grid_side(builder) * geometry.patch_size(builder.config),) * 2
        builder.inputs["pixel_values"] = builder.floats((builder.batch, geometry.channels(builder.config), *size))
    else:
        size = min(((int(tall), int(wide)) for tall, wide in grids), key=lambda grid: grid[0] * grid[1])
        tiles = -(-size[0] // height) * -(-size[1] // width)
        builder.inputs["pixel_values"] = images(builder, tiles + 1)
    builder.inputs["image_sizes"] = torch.tensor([size] * builder.batch, device=builder.device)


def add_by_aspect(builder: InputBuilder) -> None:
    """One image a sample in as many tiles as there may be, with the id of that cut; no tile is padding."""
    part = geometry.parts_that_see(builder.config)[-1]
    tiles = int(first(part, "max_num_tiles", default=4))
    # The cut into most tiles among the supported ones, a square where there is one.
    cuts = first(part, "supported_aspect_ratios", default=[[1, 1]])
    place = max(range(len(cuts)), key=lambda each: (cuts[each][0] * cuts[each][1], -abs(cuts[each][0] - cuts[each][1])))
    builder.inputs["pixel_values"] = images(builder, 1, tiles)
    builder.inputs["aspect_ratio_ids"] = builder.full((builder.batch, 1), 1 + place)
    builder.inputs["aspect_ratio_mask"] = builder.ones((builder.batch, 1, tiles))


def add_strip(builder: InputBuilder) -> None:
    """All patches of all images side by side in one strip, with the height and width of each image in patches."""
    side, edge = grid_side(builder), geometry.patch_size(builder.config)
    shape = (1, geometry.channels(builder.config), edge, builder.batch * side * side * edge)
    builder.inputs["pixel_values"] = builder.floats(shape)
    builder.inputs["target_sizes"] = builder.full((builder.batch, 2), side, dtype=torch.int32)


def add_local_views(builder: InputBuilder) -> None:
    """Beside each whole image two views of its halves, three quarters of its size each."""
    height, _ = geometry.image_size(builder.config, builder.request.full_size)
    patch = geometry.patch_size(builder.config)
    edge = height // patch * 3 // 4 * patch
    shape = (2 * builder.batch, geometry.channels(builder.config), edge, edge)
    builder.inputs["pixel_values_local"] = builder.floats(shape)
    builder.inputs["num_local_patches"] = [2] * builder.batch
    if "patches_grid" in builder.takes:
        builder.inputs["patches_grid"] = [[2, 1]] * builder.batch
