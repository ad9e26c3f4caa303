"""The vision part of Llama 4: four neighbours are folded into one, and three projections follow one another."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    config.intermediate_size = int(config.hidden_size // config.pixel_shuffle_ratio**2)
    config.projector_input_dim = config.projector_output_dim = config.vision_output_dim


shrink = complete
