"""How many tokens of text an image or a video takes: the model's own feature extractor is run and counted."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs.probing import untouched

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made


def features_per_sample(made: Made, kind: str) -> int | None:
    """Features that `get_<kind>_features` gives for the inputs made so far, divided by the batch.

    None where the model has no such method or it lacks an input.
    """
    extract = extractor(made.model, kind)
    arguments = None if extract is None else _arguments(extract, made.inputs)
    if extract is None or arguments is None:
        return None
    with untouched(made.model):
        given = extract(**arguments)
    return count(given) // made.batch


def extractor(model: Any, kind: str) -> Any:
    """The bound method `get_<kind>_features` of the innermost module that has one with named parameters."""
    name = f"get_{kind}_features"
    found = [getattr(module, name) for module in model.modules() if hasattr(module, name)]
    named = [method for method in found if _named_parameters(method)]
    return named[-1] if named else None


def count(given: Any) -> int:
    """Rows in what a feature extractor returned: an output with a pooler, a tensor, or one tensor an image."""
    features = _features(given)
    if isinstance(features, (list, tuple)):
        return sum(count(each) for each in features)
    return int(features.numel()) // int(features.shape[-1])


def _features(given: Any) -> Any:
    pooled = getattr(given, "pooler_output", None)
    if pooled is not None:
        return pooled
    hidden = getattr(given, "last_hidden_state", None)
    if hidden is not None:
        return hidden
    return given[0] if isinstance(given, tuple) and len(given) == 1 else given


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


def _arguments(method: Any, inputs: dict[str, Any]) -> dict[str, Any] | None:
    """Those of the inputs that the method takes; None where one that it needs is not among them."""
    if not required_parameters(method) <= inputs.keys():
        return None
    taken = taken_by(method, inputs)
    return {**taken, "return_dict": True} if _takes_anything(method) else taken


def _takes_anything(method: Any) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in inspect.signature(method).parameters.values())
