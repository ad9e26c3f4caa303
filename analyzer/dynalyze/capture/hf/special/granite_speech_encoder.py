"""The conformer of Granite Speech, whose heads share its width."""

from __future__ import annotations

from typing import Any

_HEADS = 2


def shrink(config: Any) -> None:
    """Two heads of the size they have."""
    config.num_heads = min(config.num_heads, _HEADS)
    config.hidden_dim = config.num_heads * config.dim_head
