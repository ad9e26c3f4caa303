"""The configuration that transformers gives a model (the few values that rules ask for), and the key-value cache that
the model makes for itself, as far as it tells.
"""

from __future__ import annotations

import re
from typing import Any

_VALUES = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "sliding_window", "max_position_embeddings", "vocab_size", "num_local_experts", "num_experts", "use_cache",
    "cache_implementation", "tie_word_embeddings", "attention_dropout", "is_decoder", "is_encoder_decoder",
)  # fmt: skip
_OF_GENERATION = ("cache_implementation", "use_cache", "max_length", "max_new_tokens")
# Names of implementations, quantisers and families: nothing that could be a sentence or a path of the user's.
_WORD = re.compile(r"[A-Za-z0-9_][\w.+:|@/-]{0,79}")
Facts = dict[str, Any]
_HOLDERS = "transformers.cache_utils"
_STATIC = ("static", "hybrid", "sliding_window")


def configuration(model: Any) -> dict[str, Any]:
    """Fields of ModuleFacts that a model's configuration tells; empty for a model that has none."""
    config = getattr(model, "config", None)
    if config is None or not isinstance(getattr(config, "model_type", None), str):
        return {}
    return {
        "family": _word(config.model_type),
        "attention": _attention(config),
        "quantization": _quantiser(config),
        "config": {**_numbers(config), **_of_generation(model)},
    }


def _attention(config: Any) -> str:
    """What the language model uses; a composite one may name an implementation for each of its parts."""
    named = getattr(config, "_attn_implementation", None)
    if isinstance(named, dict):
        named = named.get("") or named.get("text_config") or next(iter(named.values()), None)
    return _word(named or getattr(_text(config), "_attn_implementation", None))


def _quantiser(config: Any) -> str:
    quantised = getattr(config, "quantization_config", None)
    method = quantised.get("quant_method") if isinstance(quantised, dict) else getattr(quantised, "quant_method", None)
    return _word(getattr(method, "value", method))  # An enum of words, or the word itself.


def _numbers(config: Any) -> dict[str, Any]:
    text = _text(config)
    found = {name: getattr(text, name, getattr(config, name, None)) for name in _VALUES}
    return {name: value for name, value in found.items() if _is_shown(value)}


def _of_generation(model: Any) -> dict[str, Any]:
    """What `generate` does unless it is told otherwise; it goes before the model's own configuration."""
    generation = getattr(model, "generation_config", None)
    found = {name: getattr(generation, name, None) for name in _OF_GENERATION}
    return {name: value for name, value in found.items() if _is_shown(value)}


def _is_shown(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and bool(_word(value)))


def _text(config: Any) -> Any:
    """The configuration of the language model in a composite one."""
    find = getattr(config, "get_text_config", None)
    try:
        return find() if find is not None else config
    except Exception:  # Some families have several and refuse to choose.
        return config


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def cache(module: Any) -> Facts:
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
