"""ViTMatte: sees an image with its trimap as a fourth channel; its code adds two lists, which are tuples by default."""

from __future__ import annotations

from typing import Any

_CHANNELS = 4


def complete(config: Any) -> None:
    for name in ("convstream_hidden_sizes", "fusion_hidden_sizes"):
        setattr(config, name, list(getattr(config, name)))
    config.backbone_config.num_channels = _CHANNELS
    shrink(config)


def shrink(config: Any) -> None:
    """The decoder reads what the backbone gives."""
    config.hidden_size = config.backbone_config.hidden_size
