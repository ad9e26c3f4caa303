"""The decoder of Qwen3-Omni's talker, which reads embeddings that the talker makes."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def complete(config: Any) -> None:
    """Its experts share one more, whose size the configuration does not name; its checkpoints have 768."""
    if not hasattr(config, "shared_expert_intermediate_size"):
        config.shared_expert_intermediate_size = 2 * config.moe_intermediate_size


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    del given["input_ids"]
    given["inputs_embeds"] = values.floats(made, (made.batch, made.sequence, model.config.hidden_size))
    return given
