"""Small configurations: a class's defaults with fewer blocks and less width, by what its arguments are called.

Only what is inside becomes small. The widths of what comes in, of texts and latents, stay as a user has them.
"""

from __future__ import annotations

import inspect
import math
import re
from functools import partial
from typing import Any

from dynalyze.capture.libraries.building import map_numbers
from dynalyze.capture.libraries.diffusers.odd import CONFIGS

Config = dict[str, Any]

# Numbers of blocks, or one for each stage: num_single_layers, layers_per_block, dit_depth.
_DEPTHS = re.compile(r"(^|_)(layers|blocks|depths?|nlayers)(_per_(mid_|down_|up_)?block)?$")
_MOST_BLOCKS = 2
# How many heads there are, how wide each is, and the names of the width where it is no product of the two.
_HEADS = ("num_attention_heads", "n_heads", "num_heads", "dit_heads", "nheads")
_HEAD_WIDTHS = ("attention_head_dim", "head_dim")
_WIDTHS = ("hidden_size", "dim", "model_dim", "embed_dim", "dit_dim", "d_model", "token_dim", "model_channels")
_KEY_HEADS = (
    "num_key_value_heads", "n_kv_heads", "num_kv_heads", "num_key_value_attention_heads", "num_cross_attention_heads",
)  # fmt: skip
_MOST_HEADS = 2
_INNER = re.compile(r"^(.*intermediate_(size|dim)|ffn?_dim|ffn_hidden_size|d_ff|ff_inner_dim|num_experts)$")
# Channels of the stages of a UNet or an autoencoder; groups of 32 have to fit into each.
_CHANNELS = re.compile(r"(^|_)(block_out_channels|stage_channels)$|^channels$|^decode_block_out_channels$")
_LEAST_CHANNELS = 32
_SIZES = re.compile(r"^sample_(size|height|width)$")
LATENT = 16
"""Height and width of latents."""


def defaults(model_class: Any, pipeline: str = "") -> Config:
    """The arguments of a class, with values for those that have no default, as a pipeline has them."""
    parameters = list(inspect.signature(model_class.__init__).parameters.items())[1:]
    config = {name: each.default for name, each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD}
    config.update({**CONFIGS.get(model_class.__name__, {}), **CONFIGS.get(pipeline, {})})
    return {name: value for name, value in config.items() if value is not inspect.Parameter.empty}


def small(config: Config) -> Config:
    """The configuration with fewer blocks and less width."""
    result = {**config, **_narrow(config)}
    least = max(_LEAST_CHANNELS, head if isinstance(head := config.get("attention_head_dim"), int) else 0)
    # Widths that follow from the first stage's: of its input, and of the embedding of time.
    widths, tied = config.get("block_out_channels"), {}
    if isinstance(widths, (list, tuple)):
        tied = {times * widths[0]: times * _divided(widths, least)[0] for times in (1, 4)}
    for name, value in config.items():
        if _DEPTHS.search(name):
            result[name] = map_numbers(partial(min, 1 if name.endswith("block") else _MOST_BLOCKS), value)
        elif _CHANNELS.search(name) and isinstance(value, (list, tuple)) and value:
            result[name] = _divided(value, least)
        elif isinstance(value, int) and value in tied and not name.endswith("cross_attention_dim"):
            result[name] = tied[value]
        elif _SIZES.search(name) and isinstance(value, int):
            result[name] = min(value, LATENT)
    return result


def _narrow(config: Config) -> Config:
    """A transformer with fewer heads, and everything that was as wide as all heads together as wide as these."""
    first = next((config[name] for name in _HEADS if isinstance(config.get(name), int)), None)
    width = next((config[name] for name in _WIDTHS if isinstance(config.get(name), int)), None)
    each = next((config[name] for name in _HEAD_WIDTHS if isinstance(config.get(name), int)), None)
    if "block_out_channels" in config or (first is None and "axes_dims" not in config):
        return {}
    if each is None:
        each = sum(config["axes_dims"]) if first is None else (width or 0) // first
    heads = (width or 0) // each if first is None and each else first
    if not each or not heads:
        return {}
    old, after = {heads * each, width}, min(heads, _MOST_HEADS)
    changes: Config = {}
    for name, value in config.items():
        if not isinstance(value, int) or isinstance(value, bool) or name in _HEAD_WIDTHS:
            continue
        if name in _HEADS:
            changes[name] = min(value, after)
        elif value in old and value > each:
            changes[name] = after * each
        elif name in _KEY_HEADS:
            changes[name] = max(1, after * value // heads) if value <= heads else after
        elif _INNER.search(name):
            changes[name] = min(value, 4 if "experts" in name else 2 * after * each)
    return changes


def _divided(value: Any, least: int) -> Any:
    """Channels by stage with the first as small as it may be, and the same ratios."""
    factor = max(1, min(value) // least)
    return type(value)(each if each < least else math.ceil(each / factor / least) * least for each in value)
