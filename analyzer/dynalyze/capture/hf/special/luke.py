"""LUKE reads entities beside the words: each has an id, and the positions of the words that mention it."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

_MENTIONED = 3


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    entities = 2 if made.name.endswith("PairClassification") else 1
    # Several choices are several texts a sample.
    shape = (*given["input_ids"].shape[:-1], entities)
    given["entity_ids"] = values.integers(made, shape, 1, config.entity_vocab_size)
    given["entity_attention_mask"] = values.ones(made, shape)
    given["entity_position_ids"] = values.integers(made, (*shape, _MENTIONED), 1, made.sequence)
    for name in ("entity_start_positions", "entity_end_positions"):
        if name in made.takes:
            given[name] = values.integers(made, shape, 1, made.sequence)
    return given
