"""The configuration that a model class has by default, made whole where the default leaves something open."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf import quirks
from dynalyze.capture.hf.parts import add_parts, agree, parts_of


def default_config(model_class: Any) -> Any:
    """The defaults of a class's own configuration, with what its code needs and they leave out."""
    config = model_class.config_class()
    config.architectures = [model_class.__name__]
    add_parts(config)
    for part in parts_of(config):
        quirks.completes.apply(part, part)
        _complete(part)
    agree(config, list(parts_of(config)))
    if model_class.__name__.endswith("ForSequenceClassification"):
        # The last token before the padding is classified: without a padding token that can be one sample alone.
        text = config.get_text_config()
        if getattr(text, "pad_token_id", 0) is None:
            text.pad_token_id = 0
    return config


def _complete(part: Any) -> None:
    """Some leave to a checkpoint what follows from the other sizes."""
    own = vars(part)
    heads, hidden = own.get("num_attention_heads"), own.get("hidden_size")
    if not isinstance(heads, int) or heads <= 0:
        return
    if own.get("num_key_value_heads", heads) is None:
        part.num_key_value_heads = heads
    if not isinstance(hidden, int):
        return
    if hidden % heads and not own.get("head_dim"):
        divisors = (number for number in range(1, 2 * heads) if hidden % number == 0)
        part.num_attention_heads = min(divisors, key=lambda number: abs(number - heads))
    if own.get("head_dim", hidden) is None:
        part.head_dim = hidden // part.num_attention_heads
