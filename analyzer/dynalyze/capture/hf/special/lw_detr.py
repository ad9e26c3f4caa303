"""LW-DETR: its defaults lead no feature map to the decoder; the released models lead one."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if not config.projector_scale_factors:
        config.projector_scale_factors = [1.0]
        config.projector_in_channels = [config.d_model]
        config.num_feature_levels = 1
