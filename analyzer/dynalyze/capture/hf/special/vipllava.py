"""VipLLaVA: reads as many layers of its vision part as it names, which a small one has not."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    """The same number of layers, some of them twice: the projector's width depends on it."""
    layers = config.vision_config.num_hidden_layers
    config.vision_feature_layers = [-1 - place % layers for place in range(len(config.vision_feature_layers))]
