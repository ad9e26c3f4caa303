"""UVDoc: its head reads all stages of its backbone, which hands out one by default."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    backbone = config.backbone_config
    backbone.out_features = backbone.stage_names[1:]
