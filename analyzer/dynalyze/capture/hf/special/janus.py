"""Janus: its aligner ends in the width that the vision part names."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    config.vision_config.projection_dim = config.text_config.hidden_size


shrink = complete
