"""The vocoder of Qwen2.5-Omni: a mel spectrogram to a waveform."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    return {"mel_spectrogram": values.floats(made, (made.batch, config.mel_dim, made.sequence))}
