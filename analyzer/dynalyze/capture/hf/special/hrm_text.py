"""Its stacks run in cycles, and its number of layers counts every turn of each."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.num_hidden_layers = config.num_layers_per_stack * config.H_cycles * (config.L_cycles + 1)
