"""BridgeTower: what its contrastive heads are made with comes with a checkpoint."""

from __future__ import annotations

from typing import Any

_RELEASED = {"contrastive_hidden_size": 512, "logit_scale_init_value": 2.6592}


def complete(config: Any) -> None:
    for name, value in _RELEASED.items():
        if not hasattr(config, name):
            setattr(config, name, value)
