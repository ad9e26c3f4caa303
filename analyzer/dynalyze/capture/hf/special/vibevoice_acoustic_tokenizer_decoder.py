"""VibeVoice's audio decoder makes a waveform of latents whose width comes first."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

# Each is thousands of samples.
_FRAMES = 2


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    return {"hidden_states": values.floats(made, (made.batch, config.hidden_size, (request.sequence or _FRAMES)))}
