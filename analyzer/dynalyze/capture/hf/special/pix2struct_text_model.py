"""Pix2Struct's decoder asks for a range of its initial weights that only the whole model names."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if not hasattr(config, "initializer_range"):
        config.initializer_range = 0.02
