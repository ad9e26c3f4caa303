"""Its rotary embeddings, cut in three sections, cover half of a head."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    config.rope_parameters = {"partial_rotary_factor": 0.5, **(config.rope_parameters or {})}
