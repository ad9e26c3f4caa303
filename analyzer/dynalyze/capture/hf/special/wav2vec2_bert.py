"""The default leaves the alphabet of transcripts open; that of other wav2vec 2.0 models has 32 letters."""

from __future__ import annotations

from typing import Any

_LETTERS = 32


def complete(config: Any) -> None:
    if config.vocab_size is None:
        config.vocab_size = _LETTERS
