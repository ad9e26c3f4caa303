"""RoCBert reads the shape and the sound of each character beside its id."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    shape = given["input_ids"].shape
    given["input_shape_ids"] = values.integers(made, shape, 1, config.shape_vocab_size)
    given["input_pronunciation_ids"] = values.integers(made, shape, 1, config.pronunciation_vocab_size)
    return given
