"""DeepSeek V2 leaves open how many experts a token is given; its checkpoints give six."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if config.num_experts_per_tok is None:
        config.num_experts_per_tok = 6
