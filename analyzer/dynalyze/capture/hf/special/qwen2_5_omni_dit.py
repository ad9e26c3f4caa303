"""The diffusion step of Qwen2.5-Omni's speech: noisy mel frames, the speaker, and codes of the speech."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    frames = made.sequence * config.repeats
    return {
        "hidden_states": values.floats(made, (made.batch, frames, config.mel_dim)),
        "condition_vector": values.floats(made, (made.batch, frames, config.mel_dim)),
        "speaker_embedding": values.floats(made, (made.batch, frames, config.enc_emb_dim)),
        "quantized_code": values.integers(made, (made.batch, made.sequence), 0, config.num_embeds),
        "time_step": values.floats(made, (made.batch,)).abs(),
    }
