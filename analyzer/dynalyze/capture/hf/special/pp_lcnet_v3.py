"""PP-LCNet: its list of blocks tells the depths too, and holds the strides."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    """All blocks: without one of them the image keeps the size that it would halve."""
    config.depths = [len(blocks) for blocks in config.block_configs]
