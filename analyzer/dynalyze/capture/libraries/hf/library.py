"""transformers as a `Library`."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.inputs import Inputs
from dynalyze.capture.libraries.hf.build import build, preload
from dynalyze.capture.libraries.hf.inputs import make_inputs
from dynalyze.capture.libraries.hf.names import listed, resolve
from dynalyze.capture.libraries.request import ModelRequest

__all__ = ["build", "listed", "make_calls", "preload", "resolve"]


def make_calls(model: Any, request: ModelRequest) -> list[Inputs]:
    return [make_inputs(model, request)]
