"""TAPAS reads for each token its segment, column, row and ranks in a table, which its tokenizer returns as types."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    import torch

    shape = given["input_ids"].shape
    kinds = [values.integers(made, shape, 0, size) for size in config.type_vocab_sizes]
    given["token_type_ids"] = torch.stack(kinds, dim=-1)
    return given
