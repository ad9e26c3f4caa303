"""Music Flamingo turns its audio states by rotary embeddings of their time, over a part of their width."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.head_dim = config.audio_config.hidden_size
