"""dots.llm1 leaves its experts open; its checkpoint has 128 and two shared ones, six to a token."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    for name, count in (("n_routed_experts", 128), ("n_shared_experts", 2), ("num_experts_per_tok", 6)):
        if getattr(config, name) is None:
            setattr(config, name, count)
