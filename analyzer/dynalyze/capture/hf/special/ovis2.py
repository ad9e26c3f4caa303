"""Ovis2: its table of visual words has the width of the text part."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    config.hidden_size = config.text_config.hidden_size


shrink = complete
