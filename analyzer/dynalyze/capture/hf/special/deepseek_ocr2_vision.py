"""The vision part of DeepSeek-OCR 2: its queries stand beside the features of SAM's encoder, in one width."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    channels = list(config.sam_config.downsample_channels)
    config.sam_config.downsample_channels = [*channels[:-1], config.encoder_config.hidden_size]
