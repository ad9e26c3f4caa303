"""Moonshine Streaming's decoder asks for its key and value heads, which its configuration does not name."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if not hasattr(config, "num_key_value_heads"):
        config.num_key_value_heads = config.num_attention_heads


def shrink(config: Any) -> None:
    config.num_key_value_heads = config.num_attention_heads
