"""A checkpoint gives the rotary embeddings of each kind of layer; the default gives one for all."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    rotary = config.rope_parameters or {}
    if not set(rotary) & set(config.layer_types):
        rotary = {"rope_type": "default", "rope_theta": 10000.0, **rotary}
        config.rope_parameters = {kind: dict(rotary) for kind in dict.fromkeys(config.layer_types)}
