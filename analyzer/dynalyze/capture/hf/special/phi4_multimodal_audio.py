"""The audio encoder of Phi-4 Multimodal calls its spectrogram `hidden_states`."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

_FRAMES = 128


def shrink(config: Any) -> None:
    """The convolutions keep the width."""
    config.ext_pw_out_channel = config.hidden_size
    config.depthwise_separable_out_channel = config.hidden_size
    config.nemo_conv_channels = config.hidden_size


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    import torch

    made = Made(model, request, given)
    frames = request.sequence or _FRAMES
    given["hidden_states"] = values.floats(made, (made.batch, frames, model.config.input_size))
    given["mask"] = values.ones(made, (made.batch, frames), dtype=torch.bool)
    return given
