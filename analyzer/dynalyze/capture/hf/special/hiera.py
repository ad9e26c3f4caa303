"""Hiera: the decoder that it is pretrained with comes with a checkpoint."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if config.decoder_hidden_size is None:
        config.decoder_hidden_size, config.decoder_depth, config.decoder_num_heads = 512, 8, 16


def shrink(config: Any) -> None:
    config.decoder_hidden_size, config.decoder_depth, config.decoder_num_heads = 128, 2, 4
