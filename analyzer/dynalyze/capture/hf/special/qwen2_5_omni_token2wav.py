"""Codes of speech and the voice of a reference to a waveform; its sampler takes one sample at a time."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    dit = config.dit_config
    frames = made.sequence * dit.repeats
    return {
        "code": values.integers(made, (1, made.sequence), 0, dit.num_embeds),
        "conditioning": values.floats(made, (1, dit.enc_emb_dim)),
        "reference_mel": values.floats(made, (1, frames, dit.mel_dim)),
        "num_steps": 2,
    }
