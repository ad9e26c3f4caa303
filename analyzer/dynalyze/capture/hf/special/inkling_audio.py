"""Inkling reads spectrograms whose values are quantised: one code a mel bin and frame."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    shape = (made.batch, made.sequence, model.config.num_codebooks)
    return {"audio_input_ids": values.integers(made, shape, 0, model.config.codebook_size)}
