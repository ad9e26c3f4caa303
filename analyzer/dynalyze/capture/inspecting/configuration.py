"""The configuration that transformers gives a model: the few values that rules ask for."""

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


def facts_of(model: Any) -> dict[str, Any]:
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
