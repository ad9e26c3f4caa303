"""Asking the model itself: how many features it makes of an image, a video or a sound, in calls that leave no trace."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, parameters_of
from dynalyze.capture.libraries.hf.parts import sub_configs


def features_per_sample(builder: InputBuilder, kind: str) -> int | None:
    """Features that `get_<kind>_features` gives for the inputs made so far, divided by the batch.

    None where the model has no such method or it lacks an input.
    """
    extract = extractor(builder.model, kind)
    if extract is None or any(
        required and name not in builder.inputs for name, required in parameters_of(extract).items()
    ):
        return None
    parameters = inspect.signature(extract).parameters.values()
    more = {"return_dict": True} if any(each.kind is each.VAR_KEYWORD for each in parameters) else {}
    with untouched(builder.model):
        given = extract(**{**taken_by(extract, builder.inputs), **more})
    return count(given) // builder.batch


def extractor(model: Any, kind: str) -> Any:
    """The bound method `get_<kind>_features` of the innermost module that has one with named parameters."""
    name = f"get_{kind}_features"
    found = [getattr(module, name) for module in model.modules() if hasattr(module, name)]
    named = [method for method in found if parameters_of(method)]
    return named[-1] if named else None


def count(given: Any) -> int:
    """Rows in what a feature extractor returned: an output with a pooler, a tensor, or one tensor an image."""
    features = given[0] if isinstance(given, tuple) and len(given) == 1 else given
    for name in ("last_hidden_state", "pooler_output"):
        if getattr(given, name, None) is not None:
            features = getattr(given, name)
    if isinstance(features, (list, tuple)):
        return sum(count(each) for each in features)
    return int(features.numel()) // int(features.shape[-1])


def taken_by(method: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Those of the inputs that a method, or the forward of a module, has parameters for."""
    return {name: inputs[name] for name in parameters_of(getattr(method, "forward", method)) if name in inputs}


@contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Inside: no gradients and no dropout. Afterwards the random state, and the attributes and buffers of every
    module and configuration are those from before.
    """
    kept = [(vars(each), dict(vars(each))) for each in [*model.modules(), *sub_configs(model.config)]]
    # Registering a buffer or a submodule changes these, and others may hold the very dicts.
    kept += [(value, dict(value)) for _, before in kept for value in before.values() if isinstance(value, dict)]
    random = torch.get_rng_state()
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        torch.set_rng_state(random)
        for attributes, before in kept:
            attributes.clear()
            attributes.update(before)
