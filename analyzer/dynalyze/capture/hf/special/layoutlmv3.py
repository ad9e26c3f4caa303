"""LayoutLMv3: the embeddings of a box's corners, height and width fill the hidden size together."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.shape_size = config.hidden_size // 12 * 2
    config.coordinate_size = (config.hidden_size - 2 * config.shape_size) // 4
