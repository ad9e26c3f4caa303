"""SpeechT5's heads read and write speech or text; the bare model reads what their prenets would give it."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

_FRAMES = 16


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    spoken = "decoder_input_values"
    if spoken not in made.takes:
        return given
    if "speaker_embeddings" in made.takes:
        given["speaker_embeddings"] = values.floats(made, (made.batch, config.speaker_embedding_dim))
    if hasattr(model, "base_model") and model.base_model is model:
        given["input_values"] = values.floats(made, (made.batch, made.sequence, config.hidden_size))
        given[spoken] = values.floats(made, (made.batch, _FRAMES, config.hidden_size))
        return given
    given[spoken] = values.floats(made, (made.batch, _FRAMES, config.num_mel_bins))
    if request.train:
        written = _FRAMES * config.reduction_factor
        given["labels"] = values.floats(made, (made.batch, written, config.num_mel_bins))
    return given
