"""Which key-value cache a transformers model makes for itself, as far as the module tells."""

from __future__ import annotations

from typing import Any

Facts = dict[str, Any]
_HOLDERS = "transformers.cache_utils"
_STATIC = ("static", "hybrid", "sliding_window")


def contribute(module: Any) -> Facts:
    """The `cache` of ModuleFacts: "static", "dynamic", or another name of transformers'; empty where there is none."""
    model = _generating(module)
    if model is None:
        return {}
    kind = _held(model) or _asked_for(model) or _made_before(model)
    if not kind and _uses_cache(model):
        kind = "dynamic"  # What transformers makes unless it is told otherwise.
    return {"cache": kind} if kind else {}


def _generating(module: Any) -> Any:
    """The model inside of wrappers that has a configuration and can generate."""
    for part in [module, *module._modules.values()]:
        if part is not None and hasattr(part, "config") and callable(getattr(part, "generate", None)):
            return part
    return None


def _held(model: Any) -> str:
    """The class of a cache that the model keeps as an attribute, in one word."""
    for value in vars(model).values():
        if type(value).__module__ == _HOLDERS and hasattr(value, "layers"):
            return type(value).__name__.removesuffix("Cache").lower()
    return ""


def _asked_for(model: Any) -> str:
    """`cache_implementation` of the generation's settings, else of the model's."""
    for settings in (getattr(model, "generation_config", None), getattr(model, "config", None)):
        named = getattr(settings, "cache_implementation", None)
        if isinstance(named, str):
            return "static" if named.startswith(_STATIC) else named
    return ""


def _made_before(model: Any) -> str:
    """`generate` notes the length of a static cache that it made."""
    length = vars(model).get("_previous_max_cache_length")
    return "static" if isinstance(length, int) and length > 0 else ""


def _uses_cache(model: Any) -> bool:
    return any(
        getattr(settings, "use_cache", None) is True
        for settings in (getattr(model, "generation_config", None), getattr(model, "config", None))
    )
