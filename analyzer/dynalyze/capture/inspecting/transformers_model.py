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
    find = getattr(config, "get_text_config", None)
    try:  # That of the language model in a composite one.
        text = find() if find is not None else config
    except Exception:  # Some families have several and refuse to choose.
        text = config
    # A composite model may name an implementation for each of its parts: that of the language model.
    attention = getattr(config, "_attn_implementation", None)
    if isinstance(attention, dict):
        attention = attention.get("") or attention.get("text_config") or next(iter(attention.values()), None)
    quantised = getattr(config, "quantization_config", None)
    method = quantised.get("quant_method") if isinstance(quantised, dict) else getattr(quantised, "quant_method", None)
    # What `generate` does by default goes before the model's own configuration.
    generation = getattr(model, "generation_config", None)
    own = {name: getattr(text, name, getattr(config, name, None)) for name in _VALUES}
    asked = {name: getattr(generation, name, None) for name in _OF_GENERATION}
    shown = [pair for pair in [*own.items(), *asked.items()] if isinstance(pair[1], int | float) or _word(pair[1])]
    return {
        "family": _word(config.model_type),
        "attention": _word(attention or getattr(text, "_attn_implementation", None)),
        "quantization": _word(getattr(method, "value", method)),  # An enum of words, or the word itself.
        "config": dict(shown),
    }


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def cache(module: Any) -> Facts:
    """The `cache` of ModuleFacts: "static", "dynamic", or another name of transformers'; empty where there is none."""
    # The model inside of wrappers that has a configuration and can generate.
    parts = (part for part in [module, *module._modules.values()] if part is not None and hasattr(part, "config"))
    model = next((part for part in parts if callable(getattr(part, "generate", None))), None)
    kind = "" if model is None else _kind_of_cache(model)
    return {"cache": kind} if kind else {}


def _kind_of_cache(model: Any) -> str:
    for value in vars(model).values():  # A cache that the model keeps as an attribute.
        if type(value).__module__ == _HOLDERS and hasattr(value, "layers"):
            return type(value).__name__.removesuffix("Cache").lower()
    settings = (getattr(model, "generation_config", None), getattr(model, "config", None))
    for each in settings:
        named = getattr(each, "cache_implementation", None)
        if isinstance(named, str):
            return "static" if named.startswith(_STATIC) else named
    length = vars(model).get("_previous_max_cache_length")  # Of a static cache that `generate` made.
    if isinstance(length, int) and length > 0:
        return "static"
    # What transformers makes by default.
    return "dynamic" if any(getattr(each, "use_cache", None) is True for each in settings) else ""
