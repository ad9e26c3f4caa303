"""DiffusionGemma leaves its experts open; the values are those of its larger relative, Gemma 4."""

from __future__ import annotations

from typing import Any

_OPEN = {"num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704}


def complete(config: Any) -> None:
    for name, value in _OPEN.items():
        if getattr(config, name) is None:
            setattr(config, name, value)
