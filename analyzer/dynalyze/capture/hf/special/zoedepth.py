"""ZoeDepth: what its decoder fuses and what its head reads have one width."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.bottleneck_features = config.fusion_hidden_size
