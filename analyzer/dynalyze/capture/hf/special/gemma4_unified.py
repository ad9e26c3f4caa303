"""Gemma 4 unified: the mask of the sounds picks features by it, and so has to be one of truth values."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    if "input_features_mask" in inputs:
        inputs["input_features_mask"] = inputs["input_features_mask"].bool()
    return inputs
