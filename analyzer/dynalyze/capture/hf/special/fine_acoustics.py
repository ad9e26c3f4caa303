"""Bark's fine model reads all codebooks of a sound and foretells one of them."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    shape = (made.batch, made.sequence, config.n_codes_total)
    given["input_ids"] = values.integers(made, shape, 0, config.input_vocab_size)
    given["attention_mask"] = values.ones(made, shape[:2])
    given["codebook_idx"] = config.n_codes_given
    return given
