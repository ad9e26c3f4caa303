"""The talker continues codes of speech, led by the hidden states of the thinker's reply."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    if "thinker_reply_part" not in made.takes:
        # The decoder alone, behind the projection of the codes' embeddings.
        del given["input_ids"]
        given["inputs_embeds"] = values.floats(made, (made.batch, made.sequence, config.hidden_size))
        return given
    shape = (made.batch, made.sequence, config.embedding_size)
    given["thinker_reply_part"] = values.floats(made, shape)
    given["input_text_ids"] = values.tokens(made, shape[:2])
    return given
