"""Its 96 heads do not divide its width: a checkpoint gives their size."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if not getattr(config, "head_dim", None):
        config.head_dim = 128
