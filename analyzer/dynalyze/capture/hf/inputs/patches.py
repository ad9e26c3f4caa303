"""Images as sequences of patches, beside a tensor that tells the grid they came from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import geometry
from dynalyze.capture.hf.inputs.features import extractor, taken_by, untouched
from dynalyze.capture.hf.inputs.values import floats, full, ones

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.made import Made

# Tokens of text along the edge of an image: small, and about 450 pixels for a model at full size.
_SMALL_SIDE = 4
_FULL_SIDE = 16


def grid_side(made: Made) -> int:
    """Patches along an edge of an image."""
    return (_FULL_SIDE if made.request.full_size else _SMALL_SIDE) * geometry.merge_size(made.config)


def add_grid(made: Made, pixels: str, grid: str, times: int = 1) -> None:
    """The patches of all images in one list, and `grid`: for each image its patches in time, height and width."""
    import torch

    side = grid_side(made)
    made.inputs[grid] = torch.tensor([[times, side, side]] * made.batch, device=made.device)
    for name in ("merge_sizes", grid.replace("grid_thw", "merge_sizes")):
        if made.wants(name):
            made.inputs[name] = full(made, (made.batch,), geometry.merge_size(made.config))
    patches = made.batch * times * side * side
    made.inputs[pixels] = _accepted(made, pixels, patches)


def add_packed(made: Made) -> None:
    """The patches of each image in a padded row, with a mask of the real ones and the grid's height and width."""
    import torch

    side = grid_side(made)
    made.inputs["pixel_values"] = floats(made, (made.batch, side * side, patch_values(made)))
    made.inputs["spatial_shapes"] = torch.tensor([[side, side]] * made.batch, device=made.device)
    if "pixel_attention_mask" in made.takes:
        made.inputs["pixel_attention_mask"] = ones(made, (made.batch, side * side))


def add_positioned(made: Made, pixels: str, positions: str, images: int) -> None:
    """The patches of each image in a row, with the column and line of each patch."""
    import torch

    side = grid_side(made)
    line, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    places = torch.stack([column.flatten(), line.flatten()], dim=-1)
    made.inputs[pixels] = floats(made, (images, side * side, patch_values(made)))
    made.inputs[positions] = places.expand(images, -1, -1).contiguous().to(made.device)


def add_flattened(made: Made) -> None:
    """The patches of each image in a row, the line and column of each as its first two values."""
    import torch

    side = grid_side(made)
    line, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    places = torch.stack([line.flatten(), column.flatten()], dim=-1) + 1
    values = floats(made, (made.batch, side * side, patch_values(made)))
    placed = places.expand(made.batch, -1, -1).to(values)
    made.inputs["flattened_patches"] = torch.cat([placed, values], dim=-1)


def patch_values(made: Made) -> int:
    """How many values one patch holds."""
    projection = patch_projection(made.model)
    if projection is None:
        return geometry.channels(made.config) * geometry.patch_size(made.config) ** 2
    if hasattr(projection, "in_features"):
        return int(projection.in_features)
    return math.prod(_patch_image(projection))


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


def _accepted(made: Made, pixels: str, patches: int) -> torch.Tensor:
    """Patches as rows of values; as images of their own where the model refuses rows."""
    shapes: list[tuple[int, ...]] = [(patches, patch_values(made))]
    projection = patch_projection(made.model)
    if hasattr(projection, "kernel_size"):
        image = _patch_image(projection)
        shapes += [(patches, *image), (1, patches, *image)]
    values = floats(made, shapes[0])
    for shape in shapes:
        reshaped = values.reshape(shape)
        if len(shapes) == 1 or _reads(made, pixels, {**made.inputs, pixels: reshaped}):
            return reshaped
    return values


def _reads(made: Made, pixels: str, inputs: dict[str, Any]) -> bool:
    """Whether the vision part takes these. A failure for another reason shows when the model itself is called."""
    read = extractor(made.model, "video" if pixels == "pixel_values_videos" else "image") or made.model
    with untouched(made.model):
        try:
            read(**taken_by(read, inputs))
        except Exception:
            return False
    return True


def _patch_image(convolution: Any) -> tuple[int, ...]:
    return int(convolution.in_channels), *(int(edge) for edge in convolution.kernel_size)
