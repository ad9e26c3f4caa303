"""Two recurrent blocks go before one of attention; two layers show one of each."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.block_types = list(dict.fromkeys(config.block_types))
