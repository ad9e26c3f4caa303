"""Depth Pro: patches of an image in several resolutions, the smallest of which is a single patch."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats

_SMALL_PATCH = 64


def shrink(config: Any) -> None:
    config.patch_size = _SMALL_PATCH
    for encoder in (config.image_model_config, config.patch_model_config, config.fov_model_config):
        encoder.image_size = _SMALL_PATCH
    layers = config.patch_model_config.num_hidden_layers
    config.intermediate_hook_ids = [layers - 1 - hook % layers for hook in range(len(config.intermediate_hook_ids))]


def pixels(made: Made) -> None:
    edge = int(made.config.patch_size / min(made.config.scaled_images_ratios))
    made.inputs["pixel_values"] = floats(made, (made.batch, 3, edge, edge))
