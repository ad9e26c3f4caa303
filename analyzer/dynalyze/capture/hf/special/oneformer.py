"""OneFormer: a sentence tells which of its tasks is asked for; texts of what may be seen are for training alone."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import tokens
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request)
    vocabulary = model.config.text_encoder_vocab_size
    inputs["task_inputs"] = tokens(made, (made.batch, model.config.task_seq_len), vocabulary)
    return inputs
