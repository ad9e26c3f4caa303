"""The backbone of UVDoc: its list of stages tells the depths too, and holds the widths."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.depths = [len(stages) for stages in config.stage_configs]
