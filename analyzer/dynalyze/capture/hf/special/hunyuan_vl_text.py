"""The text part of HunYuan-VL: positions in four axes share the frequencies, in parts that a checkpoint names."""

from __future__ import annotations

from typing import Any

_AXES = 4


def complete(config: Any) -> None:
    rope = dict(config.rope_parameters or {"rope_type": "default", "rope_theta": 10000.0})
    if rope.get("mrope_section") is None:
        head = config.head_dim or config.hidden_size // config.num_attention_heads
        rope["mrope_section"] = [head // 2 // _AXES] * _AXES
        config.rope_parameters = rope
