"""A checkpoint lists its layers: short convolutions, and attention in every fourth or so."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if config.layer_types is None:
        kinds = ("conv", "conv", "full_attention", "conv")
        config.layer_types = [kinds[number % len(kinds)] for number in range(config.num_hidden_layers)]
