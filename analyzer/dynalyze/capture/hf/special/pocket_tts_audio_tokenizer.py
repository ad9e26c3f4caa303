"""Pocket TTS's audio tokenizer upsamples each channel by itself."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    """As many groups as channels."""
    config.upsample_groups = config.hidden_size
