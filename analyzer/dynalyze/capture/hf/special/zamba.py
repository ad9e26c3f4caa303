"""Its hybrid layers share one transformer, and are tied only where there are two."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.layers_block_type = ["linear_attention", "hybrid", "hybrid"]
    config.num_hidden_layers = len(config.layers_block_type)
