"""X-Codec quantises acoustic and semantic states side by side."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.codebook_dim = config.acoustic_model_config.hidden_size + config.semantic_model_config.hidden_size
