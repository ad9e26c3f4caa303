"""Its segmentation reads four layers, and its pretraining needs a token for what is masked: no default of either."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if "ForMaskedImageModeling" in str(config.architectures):
        config.use_mask_token = True
    if "ForSemanticSegmentation" in str(config.architectures):
        layers = config.num_hidden_layers
        config.out_indices = [layers // 4, layers // 2 - 1, layers * 2 // 3 - 1, layers - 1]
