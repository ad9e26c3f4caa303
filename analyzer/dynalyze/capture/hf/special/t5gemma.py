"""Its encoder alone asks for a configuration that says so."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    if "T5GemmaEncoderModel" in (config.architectures or ()):
        config.is_encoder_decoder = False
