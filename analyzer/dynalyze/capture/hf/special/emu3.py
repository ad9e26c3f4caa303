"""Emu3: images become tokens of the vocabulary by a map that only checkpoints bring."""

from __future__ import annotations

from typing import Any

_FIRST = 4


def complete(config: Any) -> None:
    """A map with a name for each entry of the codebook, and for the end of a line of them."""
    if config.vocabulary_map is None:
        _number(config)


def shrink(config: Any) -> None:
    config.vq_config.codebook_size = 256
    _number(config)


def _number(config: Any) -> None:
    codes = config.vq_config.codebook_size
    names = {f"<|visual token {code:06d}|>": _FIRST + code for code in range(codes)}
    config.vocabulary_map = {**names, "<image>": _FIRST + codes, "<|extra_200|>": _FIRST + codes + 1}
    config.image_token_id = _FIRST + codes
