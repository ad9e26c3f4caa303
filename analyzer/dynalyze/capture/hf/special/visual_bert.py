"""VisualBERT reads embeddings of the regions that a detector found in an image, beside the text."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

_REGIONS = 10


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    # One more dimension where several choices are scored.
    shape = (*given["input_ids"].shape[:-1], _REGIONS)
    given["visual_embeds"] = values.floats(made, (*shape, model.config.visual_embedding_dim))
    given["visual_attention_mask"] = values.ones(made, shape)
    given["visual_token_type_ids"] = values.ones(made, shape)
    if "region_to_phrase_position" in made.takes:
        given["region_to_phrase_position"] = values.integers(made, (made.batch, _REGIONS), 0, made.sequence)
    return given
