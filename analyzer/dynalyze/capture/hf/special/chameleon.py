"""Chameleon: images become tokens of the vocabulary by a map that only checkpoints bring."""

from __future__ import annotations

from typing import Any


def complete(config: Any) -> None:
    """A map with a name for each entry of the codebook, its number written in letters."""
    if config.vocabulary_map is None:
        _number(config, first=4)


def shrink(config: Any) -> None:
    config.vq_config.num_embeddings = 256
    _number(config, first=4)


def _number(config: Any, first: int) -> None:
    image = first + config.vq_config.num_embeddings
    codes = {f"IMGIMG{_letters(code)}Z": first + code for code in range(config.vq_config.num_embeddings)}
    config.vocabulary_map = {**codes, "<image>": image}
    config.image_token_id = image


def _letters(number: int) -> str:
    return "".join(chr(ord("A") + int(digit)) for digit in str(number))
