"""Dia's decoder reads the codes of several channels of sound."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    encoder, decoder = model.config.encoder_config, model.config.decoder_config
    given["input_ids"] = values.tokens(made, given["input_ids"].shape, vocabulary=encoder.vocab_size)
    codes = (made.batch, made.sequence, decoder.num_channels)
    given["decoder_input_ids"] = values.tokens(made, codes, vocabulary=decoder.vocab_size)
    if request.train:
        labels = (made.batch * decoder.num_channels, made.sequence)
        given["labels"] = values.tokens(made, labels, vocabulary=decoder.vocab_size)
    return given
