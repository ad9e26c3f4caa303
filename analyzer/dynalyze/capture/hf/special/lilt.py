"""LiLT embeds each of six numbers of a box in an equal share of its width."""

from __future__ import annotations

from typing import Any

_NUMBERS = 6


def shrink(config: Any) -> None:
    heads = config.num_attention_heads
    step = _NUMBERS * heads * config.channel_shrink_ratio
    config.hidden_size = max(config.hidden_size // step, 1) * step
