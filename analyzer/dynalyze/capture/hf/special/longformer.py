"""Longformer attends globally to a question, which it finds by the separators after it."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.request import ModelRequest

_QUESTION = 5


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    if type(model).__name__.endswith("ForQuestionAnswering"):
        for position in (_QUESTION, _QUESTION + 1, -1):
            given["input_ids"][:, position] = model.config.sep_token_id
    return given
