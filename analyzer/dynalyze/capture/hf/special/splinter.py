"""Splinter answers at a question token in the text."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    given["input_ids"][..., 1] = model.config.question_token_id
    return given
