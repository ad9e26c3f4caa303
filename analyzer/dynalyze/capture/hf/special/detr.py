"""DETR: its ResNet comes from timm by default; without timm, transformers' own ResNet takes its place."""

from __future__ import annotations

import importlib.util
from typing import Any


def shrink(config: Any) -> None:
    backbone = getattr(config, "backbone_config", None)
    if backbone is None or backbone.model_type != "timm_backbone" or importlib.util.find_spec("timm"):
        return
    from transformers import ResNetConfig

    config.backbone_config = ResNetConfig(depths=[1, 1, 1, 1], out_indices=list(backbone.out_indices))
