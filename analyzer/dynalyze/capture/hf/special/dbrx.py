"""DBRX's attention asks for what its default leaves open; the values are its checkpoint's."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if not hasattr(config.attn_config, "rope_theta"):
        config.attn_config.rope_theta = 500_000.0
    if config.attn_config.clip_qkv is None:
        config.attn_config.clip_qkv = 8
