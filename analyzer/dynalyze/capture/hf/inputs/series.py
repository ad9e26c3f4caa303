"""Time series: past values, what is known beside them, and what is to be foretold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.made import Made


def add(made: Made) -> None:
    """`past_values` and, where forward has them, their time features, masks and static features."""
    if not made.wants("past_values"):
        return
    past = _past_length(made)
    made.inputs["past_values"] = values.floats(made, _with_channels(made, past))
    for name in ("past_observed_mask", "observed_mask"):
        if made.wants(name):
            made.inputs[name] = values.ones(made, _with_channels(made, past), dtype=_mask_dtype(made))
    if made.wants("past_time_features"):
        _add_time_features(made, past)
    _add_static(made)
    if made.train:
        _add_targets(made)
    if made.needs("past_values_padding"):
        made.inputs["past_values_padding"] = values.zeros(made, (made.batch, past))
    if made.needs("freq"):
        made.inputs["freq"] = values.zeros(made, (made.batch, 1))


def _past_length(made: Made) -> int:
    """What the model conditions on, which its configuration fixes, and before it what its lags look back at."""
    length: int = values.first(made.config, "context_length", "sequence_length", default=made.sequence)
    lags: list[int] = values.first(made.config, "lags_sequence", default=[0])
    return int(length) + max(lags)


def _with_channels(made: Made, length: int) -> tuple[int, ...]:
    channels = values.first(made.config, "num_input_channels", "input_size", default=1)
    has_channels = hasattr(made.config, "num_input_channels") or channels > 1
    return (made.batch, length, channels) if has_channels else (made.batch, length)


def _mask_dtype(made: Made) -> torch.dtype:
    """Masks that are multiplied into the values are floating."""
    import torch

    return made.dtype if "past_time_features" in made.takes else torch.bool


def _add_time_features(made: Made, past: int) -> None:
    features = getattr(made.config, "num_time_features", 0)
    made.inputs["past_time_features"] = values.floats(made, (made.batch, past, features))
    future = values.first(made.config, "prediction_length", default=1)
    made.inputs["future_values"] = values.floats(made, _with_channels(made, future))
    made.inputs["future_time_features"] = values.floats(made, (made.batch, future, features))


def _add_static(made: Made) -> None:
    categories = values.first(made.config, "num_static_categorical_features", default=0)
    sizes = values.first(made.config, "cardinality", default=[1])
    if categories and made.wants("static_categorical_features"):
        made.inputs["static_categorical_features"] = values.integers(made, (made.batch, categories), 0, min(sizes))
    reals = values.first(made.config, "num_static_real_features", default=0)
    if reals and made.wants("static_real_features"):
        made.inputs["static_real_features"] = values.floats(made, (made.batch, reals))


def _add_targets(made: Made) -> None:
    """What is to be foretold of each channel, or a class or numbers of the whole series."""
    future = values.first(made.config, "prediction_length")
    if made.wants("future_values") and future is not None:
        made.inputs["future_values"] = values.floats(made, _with_channels(made, future))
    if made.wants("target_values"):
        made.inputs["target_values"] = _targets(made)


def _targets(made: Made) -> torch.Tensor:
    count = values.first(made.config, "num_targets", default=1)
    if made.name.endswith("Classification"):
        return values.integers(made, (made.batch,), 0, int(count))
    return values.floats(made, (made.batch, count))
