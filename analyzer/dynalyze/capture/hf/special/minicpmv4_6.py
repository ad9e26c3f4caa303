"""MiniCPM-V: which tokens stand for images and videos comes with a checkpoint."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    last = config.text_config.vocab_size - 1
    if config.image_token_id is None:
        config.image_token_id = last
    if config.video_token_id is None:
        config.video_token_id = last - 1
