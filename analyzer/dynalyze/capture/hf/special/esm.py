"""The defaults leave the alphabet of residues open (that of ESM-2 has 33 tokens), and the folding model's part."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

# The folding model reads residues as AlphaFold counts them.
_RESIDUES = 20
_ALPHABET = {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32}


def complete(config: Any) -> None:
    for name, value in _ALPHABET.items():
        if getattr(config, name) is None:
            setattr(config, name, value)
    if config.esmfold_config is None:
        _complete_folding(config)


def _complete_folding(config: Any) -> None:
    """What only the folding model reads."""
    from transformers.models.esm.configuration_esm import EsmFoldConfig, get_default_vocab_list

    config.esmfold_config = EsmFoldConfig()
    config.vocab_list = get_default_vocab_list()


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    if made.name.endswith("ForProteinFolding"):
        given["input_ids"] = values.integers(made, (made.batch, made.sequence), 0, _RESIDUES)
    return given
