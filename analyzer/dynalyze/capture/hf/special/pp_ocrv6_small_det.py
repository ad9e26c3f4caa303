"""PP-OCRv6's text detectors read all stages of their backbone, each half the size of the one before.

By default they have the backbone of the readers: it hands out its last stage, and keeps the width of the line.
"""

from __future__ import annotations

from typing import Any

# A block is told as kernel, channels in and out, stride, and whether it squeezes.
_STRIDE = 3


def complete(config: Any) -> None:
    backbone = config.backbone_config
    for stage in backbone.block_configs[1:]:
        stage[0][_STRIDE] = 2
    backbone.out_features = backbone.stage_names[1:]
    if hasattr(config, "layer_list_out_channels"):
        config.layer_list_out_channels = list(backbone.stage_out_channels)
