"""SeamlessM4T reads speech or text, never both: the bare model is given speech, its heads for text show the text."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    if "input_features" in given and "input_ids" in given:
        del given["input_ids"]
        given["attention_mask"] = values.ones(made, given["input_features"].shape[:2])
    if "TextToUnit" in made.name:
        # The units are made of the text decoder's states.
        del given["input_ids"]
        given["inputs_embeds"] = values.floats(made, (made.batch, made.sequence, model.config.hidden_size))
    return given
