"""Time series: past values, what is known beside them, and what is to be foretold."""

from __future__ import annotations

import torch

from dynalyze.capture.libraries.hf import parts
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder


def add(builder: InputBuilder) -> None:
    """`past_values` and, where forward has them, their time features, masks and static features."""
    if not builder.wants("past_values"):
        return
    # What the model conditions on, which its configuration fixes, and before it what its lags look back at.
    length: int = parts.first(builder.config, "context_length", "sequence_length", default=builder.sequence)
    past = int(length) + max(parts.first(builder.config, "lags_sequence", default=[0]))
    builder.inputs["past_values"] = builder.floats(_with_channels(builder, past))
    # Masks that are multiplied into the values are floating.
    dtype = builder.dtype if "past_time_features" in builder.takes else torch.bool
    for name in ("past_observed_mask", "observed_mask"):
        if builder.wants(name):
            builder.inputs[name] = builder.ones(_with_channels(builder, past), dtype=dtype)
    if builder.wants("past_time_features"):
        features = getattr(builder.config, "num_time_features", 0)
        future = parts.first(builder.config, "prediction_length", default=1)
        builder.inputs["past_time_features"] = builder.floats((builder.batch, past, features))
        builder.inputs["future_values"] = builder.floats(_with_channels(builder, future))
        builder.inputs["future_time_features"] = builder.floats((builder.batch, future, features))
    _add_static(builder)
    if builder.train:
        _add_targets(builder)
    if builder.needs("past_values_padding"):
        builder.inputs["past_values_padding"] = builder.full((builder.batch, past), 0)
    if builder.needs("freq"):
        builder.inputs["freq"] = builder.full((builder.batch, 1), 0)


def _with_channels(builder: InputBuilder, length: int) -> tuple[int, ...]:
    channels = parts.first(builder.config, "num_input_channels", "input_size", default=1)
    has_channels = hasattr(builder.config, "num_input_channels") or channels > 1
    return (builder.batch, length, channels) if has_channels else (builder.batch, length)


def _add_static(builder: InputBuilder) -> None:
    categories = parts.first(builder.config, "num_static_categorical_features", default=0)
    sizes = parts.first(builder.config, "cardinality", default=[1])
    if categories and builder.wants("static_categorical_features"):
        chosen = builder.integers((builder.batch, categories), 0, min(sizes))
        builder.inputs["static_categorical_features"] = chosen
    reals = parts.first(builder.config, "num_static_real_features", default=0)
    if reals and builder.wants("static_real_features"):
        builder.inputs["static_real_features"] = builder.floats((builder.batch, reals))


def _add_targets(builder: InputBuilder) -> None:
    """What is to be foretold of each channel, or a class or numbers of the whole series."""
    future = parts.first(builder.config, "prediction_length")
    if builder.wants("future_values") and future is not None:
        builder.inputs["future_values"] = builder.floats(_with_channels(builder, future))
    if builder.wants("target_values"):
        count = parts.first(builder.config, "num_targets", default=1)
        if builder.name.endswith("Classification"):
            builder.inputs["target_values"] = builder.integers((builder.batch,), 0, int(count))
        else:
            builder.inputs["target_values"] = builder.floats((builder.batch, count))
