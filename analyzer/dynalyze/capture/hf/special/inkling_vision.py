"""The vision part of Inkling: each layer folds neighbouring pixels, one for each factor of the sizes of a patch."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats

_PATCHES = 16


def shrink(config: Any) -> None:
    """As many layers as folds: fewer would have to leave some out, which transformers does with scipy."""
    config.num_hidden_layers = 1 + _prime_factors(config.patch_size) + _prime_factors(config.temporal_patch_size)


def pixels(made: Made) -> None:
    """The patches of all images in one list, each a short film of one picture, its channels last."""
    vision = getattr(made.config, "vision_config", made.config)
    edge = vision.patch_size
    shape = (made.batch * _PATCHES, vision.temporal_patch_size, edge, edge, vision.num_channels)
    made.inputs["pixel_values"] = floats(made, shape)


def _prime_factors(number: int) -> int:
    count, divisor = 0, 2
    while number > 1:
        if number % divisor == 0:
            number //= divisor
            count += 1
        else:
            divisor += 1
    return count
