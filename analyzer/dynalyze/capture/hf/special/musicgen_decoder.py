"""The decoder alone reads one row of tokens a codebook."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    codes = (made.batch * config.num_codebooks, made.sequence)
    given["input_ids"] = values.integers(made, codes, 0, config.vocab_size)
    given["attention_mask"] = values.ones(made, (made.batch, made.sequence))
    if request.train:
        given["labels"] = values.integers(made, (made.batch, made.sequence, config.num_codebooks), 0, config.vocab_size)
    return given
