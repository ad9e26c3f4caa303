"""Mimi upsamples each channel by itself, and quantises latents of the width of its codebooks."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    """As many groups as channels."""
    config.upsample_groups = config.hidden_size
    config.codebook_dim = config.vector_quantization_hidden_dimension
