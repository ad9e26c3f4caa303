"""Asking the model itself: how many features it makes of an image, a video or a sound, in calls that leave no trace."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dynalyze.capture.hf.inputs.input_builder import InputBuilder
from dynalyze.capture.hf.parts import sub_configs


def features_per_sample(builder: InputBuilder, kind: str) -> int | None:
    """Features that `get_<kind>_features` gives for the inputs made so far, divided by the batch.

    None where the model has no such method or it lacks an input.
    """
    extract = extractor(builder.model, kind)
    if extract is None or not required_parameters(extract) <= builder.inputs.keys():
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
    named = [method for method in found if _named_parameters(method)]
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
    parameters = _named_parameters(getattr(method, "forward", method))
    return {each.name: inputs[each.name] for each in parameters if each.name in inputs}


def required_parameters(method: Any) -> frozenset[str]:
    """The names of the parameters without a default."""
    return frozenset(each.name for each in _named_parameters(method) if each.default is each.empty)


def _named_parameters(method: Any) -> list[inspect.Parameter]:
    parameters = inspect.signature(method).parameters.values()
    return [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]


@contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Inside: no gradients and no dropout. Afterwards the random state, and the attributes and buffers of every
    module and configuration are those from before.
    """
    kept = [(vars(each), _copy(vars(each))) for each in [*model.modules(), *sub_configs(model.config)]]
    random = torch.get_rng_state()
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        torch.set_rng_state(random)
        for attributes, before in kept:
            _restore(attributes, before)


def _copy(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes, with copies of the dicts that registering a buffer or a submodule changes."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in attributes.items()}


def _restore(attributes: dict[str, Any], before: dict[str, Any]) -> None:
    """Put values back into the very dicts that were there, since others may hold them."""
    dicts = {name: value for name, value in attributes.items() if isinstance(value, dict)}
    attributes.clear()
    for name, value in before.items():
        if isinstance(value, dict) and name in dicts:
            dicts[name].clear()
            dicts[name].update(value)
            attributes[name] = dicts[name]
        else:
            attributes[name] = value
