"""The transformer of Qwen3-Omni's vocoder reads embeddings of codes; the vocoder around it reads the codes."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    if "codes" in made.takes:
        codes = (made.batch, config.num_quantizers, made.sequence)
        return {"codes": values.integers(made, codes, 0, config.codebook_size)}
    del given["input_ids"]
    given["inputs_embeds"] = values.floats(made, (made.batch, made.sequence, config.hidden_size))
    return given
