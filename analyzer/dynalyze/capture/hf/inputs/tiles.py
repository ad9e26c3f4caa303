"""Images cut into tiles, beside a tensor that tells how they were cut."""

from __future__ import annotations

import torch

from dynalyze.capture.hf.inputs import geometry, patches
from dynalyze.capture.hf.inputs.input_builder import InputBuilder
from dynalyze.capture.hf.inputs.values import first


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
        edge = patches.grid_side(builder) * geometry.patch_size(builder.config)
        builder.inputs["pixel_values"] = builder.floats((builder.batch, geometry.channels(builder.config), edge, edge))
        size = (edge, edge)
    else:
        size = min(((int(tall), int(wide)) for tall, wide in grids), key=lambda grid: grid[0] * grid[1])
        tiles = -(-size[0] // height) * -(-size[1] // width)
        builder.inputs["pixel_values"] = images(builder, tiles + 1)
    builder.inputs["image_sizes"] = torch.tensor([size] * builder.batch, device=builder.device)


def add_by_aspect(builder: InputBuilder) -> None:
    """One image a sample in as many tiles as there may be, with the id of that cut; no tile is padding."""
    part = geometry.vision_part(builder.config)
    tiles = int(first(part, "max_num_tiles", default=4))
    # The cut into most tiles among the supported ones, a square where there is one.
    cuts = first(part, "supported_aspect_ratios", default=[[1, 1]])
    place = max(range(len(cuts)), key=lambda each: (cuts[each][0] * cuts[each][1], -abs(cuts[each][0] - cuts[each][1])))
    builder.inputs["pixel_values"] = images(builder, 1, tiles)
    builder.inputs["aspect_ratio_ids"] = builder.full((builder.batch, 1), 1 + place)
    builder.inputs["aspect_ratio_mask"] = builder.ones((builder.batch, 1, tiles))


def add_strip(builder: InputBuilder, pixels: str, sizes: str, images_of_a_sample: int = 1) -> None:
    """All patches of all images side by side in one strip, with the height and width of each image in patches."""
    side, edge = patches.grid_side(builder), geometry.patch_size(builder.config)
    count = builder.batch * images_of_a_sample
    shape = (1, geometry.channels(builder.config), edge, count * side * side * edge)
    builder.inputs[pixels] = builder.floats(shape)
    builder.inputs[sizes] = torch.tensor([[side, side]] * count, dtype=torch.int32, device=builder.device)


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
