"""The predictor of residual codes starts from the talker's hidden state and the first code's embedding."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    del given["input_ids"], given["attention_mask"]
    given["inputs_embeds"] = values.floats(made, (made.batch, 2, config.hidden_size))
    return given
