"""Its full attention chooses tokens by an indexer, whose sizes a checkpoint gives."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if config.indexer_n_heads is None:
        config.indexer_n_heads = 4
        config.indexer_kv_heads = 1
        config.indexer_head_dim = config.head_dim
        config.indexer_budget = 64
        config.indexer_compress_ratio = 4
