"""Its default has no layer with attention, which its own code cannot run: a checkpoint has some."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if not config.attn_layer_indices:
        config.attn_layer_indices = list(range(9, config.num_hidden_layers, 9))


def shrink(config: Any) -> None:
    config.attn_layer_indices = [config.num_hidden_layers - 1]
