"""Granite 4 Vision: which layers feed which, and how much is folded, comes with a checkpoint."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import tiles
from dynalyze.capture.hf.inputs.features import count, extractor
from dynalyze.capture.hf.inputs.made import Made, Placeholder
from dynalyze.capture.hf.inputs.probing import untouched

_WINDOW = 8


def complete(config: Any) -> None:
    """Windows of eight patches become four tokens; the last layer of the vision part feeds the first of the text's."""
    vision = config.vision_config
    if config.downsample_rate is None:
        config.downsample_rate = "4/8"
    if vision.image_size // vision.patch_size % _WINDOW:
        vision.image_size = _WINDOW * vision.patch_size
        edge = vision.image_size
        config.image_grid_pinpoints = [[edge, 2 * edge], [2 * edge, edge], [2 * edge, 2 * edge]]
    if config.deepstack_layer_map is None:
        config.deepstack_layer_map = [(-1, 0)]


def shrink(config: Any) -> None:
    last = config.text_config.num_hidden_layers - 1
    config.deepstack_layer_map = [(-1, min(layer, last)) for _, layer in config.deepstack_layer_map[:1]]
    config.spatial_target_layers = [min(layer, last) for layer in config.spatial_target_layers]
    config.qformer_config.hidden_size = config.qformer_config.encoder_hidden_size = config.vision_config.hidden_size
    config.qformer_config.num_attention_heads = config.vision_config.num_attention_heads


def pixels(made: Made) -> None:
    """Images in tiles; a placeholder for each feature, of which each layer that is fed gets its own set."""
    tiles.add_sized(made)
    with untouched(made.model):
        output = extractor(made.model, "image")(made.inputs["pixel_values"], made.inputs["image_sizes"])
    _, features = output.deepstack_features[0]
    made.placeholders.append(Placeholder(made.config.image_token_index, count(features) // made.batch))
