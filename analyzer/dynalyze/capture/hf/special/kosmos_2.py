"""Kosmos-2: a mask, not a token, tells where in the text the features of the image go."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import ones, tokens, zeros
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    """As many tokens for the image as it is resampled to, after the first token of the text."""
    import torch

    count = getattr(model.config, "latent_query_num", None)
    if count is None or "input_ids" not in inputs:
        return inputs
    made, ids = Made(model, request), inputs["input_ids"]
    mask = zeros(made, (made.batch, count + ids.shape[1]))
    mask[:, 1 : count + 1] = 1
    inputs["input_ids"] = torch.cat([ids[:, :1], tokens(made, (made.batch, count)), ids[:, 1:]], dim=1)
    inputs["attention_mask"] = ones(made, mask.shape)
    inputs["image_embeds_position_mask"] = mask
    return inputs
