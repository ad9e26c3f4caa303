"""MobileBERT's bottleneck has the width of its embeddings."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.intra_bottleneck_size = config.true_hidden_size = min(config.intra_bottleneck_size, config.hidden_size)
    config.embedding_size = config.intra_bottleneck_size
