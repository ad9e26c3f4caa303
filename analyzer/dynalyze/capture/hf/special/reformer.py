"""Reformer hashes texts longer than a chunk, and trains on texts as long as its axial positions multiply to."""

from __future__ import annotations

import math
from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

# A short text has several of them, so that it is hashed and sorted as a long one is.
_CHUNK = 4


def shrink(config: Any) -> None:
    config.lsh_attn_chunk_length = config.local_attn_chunk_length = _CHUNK


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    config = model.config
    if not (request.train and config.axial_pos_embds):
        return given
    made = Made(model, request, given)
    length = math.prod(config.axial_pos_shape)
    given["input_ids"] = values.tokens(made, (made.batch, length))
    given["attention_mask"] = values.ones(made, (made.batch, length))
    if "labels" in given and given["labels"].dim() == 2:
        given["labels"] = given["input_ids"].clone()
    return given
