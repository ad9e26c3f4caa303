"""What parts of a larger model read from its other parts: embeddings, queries, latents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

_QUERIES = 32


def add(made: Made) -> None:
    """Embeddings that forward cannot do without, and what a query transformer attends to."""
    width = values.first(made.text_config, "hidden_size", "d_model")
    if width is None:
        return
    for name in ("inputs_embeds", "hidden_states"):
        if made.needs(name) and "grid_thw" not in made.takes:
            made.inputs[name] = values.floats(made, (made.batch, made.sequence, width))
    if made.needs("latents"):
        made.inputs["latents"] = values.floats(made, (made.batch, width, made.sequence))
    if made.wants("query_embeds"):
        _add_queries(made, width)


def _add_queries(made: Made, width: int) -> None:
    queries = values.first(made.config, "num_query_tokens", default=_QUERIES)
    made.inputs["query_embeds"] = values.floats(made, (made.batch, queries, width))
    if made.wants("encoder_hidden_states"):
        attended = values.first(made.config, "encoder_hidden_size", default=width)
        made.inputs["encoder_hidden_states"] = values.floats(made, (made.batch, made.sequence, attended))
    ids = made.inputs.get("input_ids")
    if ids is not None and "attention_mask" in made.inputs:
        # The queries stand before the text.
        made.inputs["attention_mask"] = values.ones(made, (made.batch, queries + ids.shape[-1]))
