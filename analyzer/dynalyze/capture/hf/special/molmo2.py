"""Molmo 2: crops of patches, and for each token of text the patches of the image that are pooled for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats, full

if TYPE_CHECKING:
    import torch

# Two by two patches are pooled to one token.
_POOL = 2


def shrink(config: Any) -> None:
    """The adapter reads the last layers of the vision part, as many as before."""
    last = config.vision_config.num_hidden_layers - 1
    config.adapter_config.vision_feature_layer = [
        max(0, last - place) for place in range(len(config.adapter_config.vision_feature_layer))
    ]


def pixels(made: Made) -> None:
    """An image is a small whole and one crop, both of the encoder's size."""
    import torch

    vision = made.config.vision_config
    side = vision.image_size[0] // vision.patch_size
    crops = 2 * made.batch
    width = vision.num_channels * vision.patch_size**2
    made.inputs["pixel_values"] = floats(made, (crops, side * side, width))
    pooled = _pooled_patches(side)
    starts = torch.arange(crops) * side * side
    made.inputs["image_token_pooling"] = (starts[:, None, None] + pooled).flatten(0, 1).to(made.device)
    made.inputs["image_grids"] = full(made, (made.batch, 4), side // _POOL)
    made.inputs["image_num_crops"] = full(made, (made.batch,), 2)


def _pooled_patches(side: int) -> torch.Tensor:
    """For each square of patches their numbers; what is left over at the edge belongs to none."""
    import torch

    squares = side // _POOL
    kept = torch.arange(side * side).view(side, side)[: squares * _POOL, : squares * _POOL]
    return kept.view(squares, _POOL, squares, _POOL).transpose(1, 2).reshape(squares * squares, _POOL * _POOL)
