"""DeepSeek-OCR 2 leaves open which layers have experts: in its checkpoint, all but the first."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if config.mlp_layer_types is None:
        config.mlp_layer_types = ["dense"] + ["sparse"] * (config.num_hidden_layers - 1)
    if config.num_experts_per_tok is None:
        config.num_experts_per_tok = 6
