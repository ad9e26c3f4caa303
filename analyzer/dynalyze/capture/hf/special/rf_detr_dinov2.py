"""The backbone of RF-DETR: its windows have to cut the patches evenly, and the default image has a prime number."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    _fit(config, edges=40)


def shrink(config: Any) -> None:
    _fit(config, edges=4 * config.num_windows)


def _fit(config: Any, edges: int) -> None:
    if config.image_size // config.patch_size % config.num_windows or edges < 40:
        config.image_size = edges * config.patch_size
