"""Its segmentation reads four layers, counted from one."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    if config.num_hidden_layers >= len(config.out_indices):
        config.out_indices = list(range(1, len(config.out_indices) + 1))
