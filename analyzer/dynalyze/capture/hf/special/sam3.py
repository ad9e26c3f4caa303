"""SAM 3: its vision part hands features to the detector in the detector's width."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.vision_config.fpn_hidden_size = config.detr_encoder_config.hidden_size
