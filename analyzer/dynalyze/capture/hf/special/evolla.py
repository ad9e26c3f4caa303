"""Evolla answers questions about a protein, which its own encoder reads as tokens of structure and sequence."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    shape = (made.batch, made.sequence)
    vocabulary = model.config.protein_encoder_config.vocab_size
    given["protein_input_ids"] = values.tokens(made, shape, vocabulary=vocabulary)
    given["protein_attention_mask"] = values.ones(made, shape)
    return given
