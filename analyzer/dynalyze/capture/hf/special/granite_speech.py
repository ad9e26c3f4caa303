"""Granite Speech projects windows of the audio encoder's states to a few tokens with a query transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.features import features_per_sample
from dynalyze.capture.hf.inputs.made import Placeholder

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

_FRAMES = 128


def complete(config: Any) -> None:
    """The projector's default reads the width of another encoder."""
    layers = getattr(config.encoder_config, "cat_hidden_layers", None) or ()
    config.projector_config.encoder_hidden_size = config.encoder_config.hidden_dim * (1 + len(layers))


def shrink(config: Any) -> None:
    complete(config)


def sounds(made: Made) -> None:
    """`input_features`, and the mask that the processor returns: of the tokens they become, not of the frames."""
    import torch

    if not made.wants("input_features"):
        return
    frames = made.request.sequence or _FRAMES
    made.inputs["input_features"] = values.floats(made, (made.batch, frames, made.config.encoder_config.input_dim))
    count = features_per_sample(made, "audio")
    if count is not None:
        made.inputs["input_features_mask"] = values.ones(made, (made.batch, count), dtype=torch.bool)
        made.placeholders.append(Placeholder(made.config.audio_token_id, count, "audio"))
