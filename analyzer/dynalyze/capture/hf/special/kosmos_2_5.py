"""Kosmos-2.5: patches with their places, their rows and columns counted, and Kosmos-2's mask in the text."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import patches
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import full
from dynalyze.capture.hf.request import ModelRequest
from dynalyze.capture.hf.special import kosmos_2


def inputs(model: Any, request: ModelRequest, inputs: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request)
    for name in ("width", "height"):
        inputs[name] = full(made, (made.batch,), patches.grid_side(made))
    return kosmos_2.inputs(model, request, inputs)
