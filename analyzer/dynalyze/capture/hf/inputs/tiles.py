"""Images cut into tiles, beside a tensor that tells how they were cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import geometry, patches
from dynalyze.capture.hf.inputs.values import first, floats, full, ones

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.made import Made


def images(made: Made, *extra: int) -> torch.Tensor:
    """A batch of whole images, `extra` dimensions between batch and channels."""
    height, width = geometry.image_size(made.config, made.request.full_size)
    return floats(made, (made.batch, *extra, geometry.channels(made.config), height, width))


def add_several(made: Made) -> None:
    """One image a sample, with a dimension for further ones, and the mask of the pixels that are no padding."""
    made.inputs["pixel_values"] = pixels = images(made, 1)
    made.inputs["pixel_attention_mask"] = ones(made, (*pixels.shape[:2], *pixels.shape[-2:]))


def add_sized(made: Made) -> None:
    """Images beside their sizes in pixels. Where the configuration has grids to choose from they are in tiles after a
    small whole; elsewhere images may have any size.
    """
    import torch

    height, width = geometry.image_size(made.config, made.request.full_size)
    grids = getattr(made.config, "image_grid_pinpoints", None)
    if not grids:
        edge = patches.grid_side(made) * geometry.patch_size(made.config)
        made.inputs["pixel_values"] = floats(made, (made.batch, geometry.channels(made.config), edge, edge))
        size = (edge, edge)
    else:
        size = min(((int(tall), int(wide)) for tall, wide in grids), key=lambda grid: grid[0] * grid[1])
        tiles = -(-size[0] // height) * -(-size[1] // width)
        made.inputs["pixel_values"] = images(made, tiles + 1)
    made.inputs["image_sizes"] = torch.tensor([size] * made.batch, device=made.device)


def add_by_aspect(made: Made) -> None:
    """One image a sample in as many tiles as there may be, with the id of that cut; no tile is padding."""
    tiles = int(first(geometry.vision_part(made.config), "max_num_tiles", default=4))
    made.inputs["pixel_values"] = images(made, 1, tiles)
    made.inputs["aspect_ratio_ids"] = full(made, (made.batch, 1), 1 + _square_cut(made))
    made.inputs["aspect_ratio_mask"] = ones(made, (made.batch, 1, tiles))


def add_strip(made: Made, pixels: str, sizes: str, images_of_a_sample: int = 1) -> None:
    """All patches of all images side by side in one strip, with the height and width of each image in patches."""
    import torch

    side, edge = patches.grid_side(made), geometry.patch_size(made.config)
    count = made.batch * images_of_a_sample
    shape = (1, geometry.channels(made.config), edge, count * side * side * edge)
    made.inputs[pixels] = floats(made, shape)
    made.inputs[sizes] = torch.tensor([[side, side]] * count, dtype=torch.int32, device=made.device)


def add_local_views(made: Made) -> None:
    """Beside each whole image two views of its halves, three quarters of its size each."""
    height, _ = geometry.image_size(made.config, made.request.full_size)
    patch = geometry.patch_size(made.config)
    edge = height // patch * 3 // 4 * patch
    shape = (2 * made.batch, geometry.channels(made.config), edge, edge)
    made.inputs["pixel_values_local"] = floats(made, shape)
    made.inputs["num_local_patches"] = [2] * made.batch
    if "patches_grid" in made.takes:
        made.inputs["patches_grid"] = [[2, 1]] * made.batch


def _square_cut(made: Made) -> int:
    """The place of the cut into most tiles among the supported ones, a square where there is one."""
    cuts = first(geometry.vision_part(made.config), "supported_aspect_ratios", default=[[1, 1]])
    return max(
        range(len(cuts)), key=lambda index: (cuts[index][0] * cuts[index][1], -abs(cuts[index][0] - cuts[index][1]))
    )
