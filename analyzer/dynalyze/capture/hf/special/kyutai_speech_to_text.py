"""Kyutai's speech to text reads, for each frame, a token of text and the codes of the sound."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    import torch

    made = Made(model, request, given)
    config = model.config
    text = values.tokens(made, (made.batch, made.sequence, 1), vocabulary=config.vocab_size)
    codes = (made.batch, made.sequence, config.num_codebooks)
    sound = values.integers(made, codes, 0, config.codebook_vocab_size)
    given["input_ids"] = torch.cat([text, sound], dim=-1)
    given["attention_mask"] = values.ones(made, codes[:2])
    if request.train and "labels" in made.takes:
        given["labels"] = text.squeeze(-1)
    return given
