"""Voxtral's configuration names no placeholder for audio; its checkpoints use 24."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    """The token that stands for audio."""
    if config.audio_token_id is None:
        config.audio_token_id = 24
