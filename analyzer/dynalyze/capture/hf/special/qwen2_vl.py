"""Qwen2-VL: what its vision part calls its hidden size is the width that the text part reads."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    config.vision_config.hidden_size = config.text_config.hidden_size


shrink = complete
