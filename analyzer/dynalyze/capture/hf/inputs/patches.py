"""Images as sequences of patches, beside a tensor that tells the grid they came from."""

from __future__ import annotations

import math
from typing import Any

import torch

from dynalyze.capture.hf.inputs import geometry
from dynalyze.capture.hf.inputs.features import extractor, taken_by, untouched
from dynalyze.capture.hf.inputs.input_builder import InputBuilder

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
    builder.inputs["spatial_shapes"] = torch.tensor([[side, side]] * builder.batch, device=builder.device)
    if "pixel_attention_mask" in builder.takes:
        builder.inputs["pixel_attention_mask"] = builder.ones((builder.batch, side * side))


def add_positioned(builder: InputBuilder, pixels: str, positions: str, images: int) -> None:
    """The patches of each image in a row, with the column and line of each patch."""
    side = grid_side(builder)
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side)).flip(-1)
    builder.inputs[pixels] = builder.floats((images, side * side, patch_values(builder)))
    builder.inputs[positions] = places.expand(images, -1, -1).contiguous().to(builder.device)


def add_flattened(builder: InputBuilder) -> None:
    """The patches of each image in a row, the line and column of each as its first two values."""
    side = grid_side(builder)
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side)) + 1
    values = builder.floats((builder.batch, side * side, patch_values(builder)))
    placed = places.expand(builder.batch, -1, -1).to(values)
    builder.inputs["flattened_patches"] = torch.cat([placed, values], dim=-1)


def patch_values(builder: InputBuilder) -> int:
    """How many values one patch holds."""
    projection = patch_projection(builder.model)
    if projection is None:
        return geometry.channels(builder.config) * geometry.patch_size(builder.config) ** 2
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


def _accepted(builder: InputBuilder, pixels: str, patches: int) -> torch.Tensor:
    """Patches as rows of values; as images of their own where the model refuses rows."""
    shapes: list[tuple[int, ...]] = [(patches, patch_values(builder))]
    projection = patch_projection(builder.model)
    if hasattr(projection, "kernel_size"):
        image = _patch_image(projection)
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


def _patch_image(convolution: Any) -> tuple[int, ...]:
    return int(convolution.in_channels), *(int(edge) for edge in convolution.kernel_size)
