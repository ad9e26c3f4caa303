"""The audio half of CLAP has features of its own form; both halves are projected to one width."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.special.clap_audio_model import sounds as sounds


def shrink(config: Any) -> None:
    config.text_config.projection_dim = config.audio_config.projection_dim = config.projection_dim
