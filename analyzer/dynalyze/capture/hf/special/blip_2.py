"""BLIP-2: a Q-Former turns an image of any size into a fixed number of tokens; which token comes with a checkpoint."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs.made import Made, Placeholder
from dynalyze.capture.hf.request import ModelRequest


def complete(config: Any) -> None:
    if config.image_token_index is None:
        config.image_token_index = config.text_config.vocab_size - 1


def pixels(made: Made) -> None:
    """Placeholders where a language model reads them; the retrieval model has none."""
    if hasattr(made.model, "language_model"):
        made.placeholders.append(Placeholder(made.config.image_token_index, made.config.num_query_tokens))


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    """The retrieval model matches each text with its image, as its documentation shows first."""
    if "use_image_text_matching_head" in Made(model, request).takes:
        inputs["use_image_text_matching_head"] = True
    return inputs
