"""MarkupLM reads for each token the path of its node in the document: tags and their places among siblings."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    shape = (*given["input_ids"].shape, config.max_depth)
    given["xpath_tags_seq"] = values.integers(made, shape, 0, config.tag_pad_id)
    given["xpath_subs_seq"] = values.integers(made, shape, 0, config.subs_pad_id)
    return given
