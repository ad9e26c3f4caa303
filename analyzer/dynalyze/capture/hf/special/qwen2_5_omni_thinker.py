"""Qwen2.5-Omni's thinker: its audio encoder gives states of the text's width, and images begin with a token."""

from __future__ import annotations

from typing import Any

_VISION_START = 151652


def complete(config: Any) -> None:
    """The width, and the token that its default does not name and its positions ask for."""
    config.audio_config.output_dim = config.text_config.hidden_size
    if not hasattr(config, "vision_start_token_id"):
        config.vision_start_token_id = _VISION_START


def shrink(config: Any) -> None:
    config.audio_config.output_dim = config.text_config.hidden_size
