"""Pop2Piano's encoder reads spectrograms as embeddings of its own width, in place of tokens."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    given.pop("input_ids", None)
    given["input_features"] = values.floats(made, (made.batch, made.sequence, model.config.d_model))
    given["attention_mask"] = values.ones(made, (made.batch, made.sequence))
    return given
