"""Configurations: the defaults of a model class made whole, the parts inside, and what their fields say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynalyze.capture.libraries.hf import quirks

# Fields for the width that the text part reads. Default configurations of composite models often put parts together
# whose defaults stem from checkpoints of different sizes.
_TEXT_WIDTHS = ("out_hidden_size", "text_hidden_size", "adapter_out_dim")
# How the fields of a configuration that hold a token's id end.
_ID_ENDINGS = ("_token_id", "_token_ids", "_token_index", "_code_id")
_MODALITIES = ("vision_config", "audio_config")


def default_config(model_class: Any) -> Any:
    """The defaults of a class's own configuration, with what its code needs and they leave out."""
    config = model_class.config_class()
    config.architectures = [model_class.__name__]
    add_parts(config)
    for part in parts_of(config):
        quirks.completes.apply(part)
        _complete(part)
    agree(config, list(parts_of(config)))
    if model_class.__name__.endswith("ForSequenceClassification"):
        # The last token before the padding is classified: without a padding token that can be one sample alone.
        text = config.get_text_config()
        if getattr(text, "pad_token_id", 0) is None:
            text.pad_token_id = 0
    return config


def _complete(part: Any) -> None:
    """Set the head counts and sizes that a default leaves to a checkpoint."""
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


def parts_of(config: Any) -> Iterator[Any]:
    """A configuration's sub-configurations, innermost first, and itself."""
    from transformers import PretrainedConfig

    seen: set[int] = set()

    def walk(value: Any) -> Iterator[Any]:
        if isinstance(value, (list, tuple)):
            for each in value:
                yield from walk(each)
        elif isinstance(value, dict):
            yield from walk(list(value.values()))
        elif isinstance(value, PretrainedConfig) and id(value) not in seen:
            seen.add(id(value))
            yield from walk(list(vars(value).values()))
            yield value

    yield from walk(config)


def first(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these fields of a configuration that is there and not None."""
    values = (getattr(config, name, None) for name in names)
    return next((value for value in values if value is not None), default)


def first_number(configs: Iterable[Any], *names: str) -> int | None:
    """The first whole number that one of the configurations has as the first of these fields."""
    values = (first(config, *names) for config in configs)
    return next((number for number in values if isinstance(number, int)), None)


def sub_configs(config: Any) -> Iterator[Any]:
    """The configuration and all configurations inside it."""
    yield config
    for name, value in vars(config).items():
        if not name.startswith("_") and hasattr(value, "model_type") and hasattr(value, "to_dict"):
            yield from sub_configs(value)


def special_ids(config: Any) -> frozenset[int]:
    """Every token id that the configuration gives a meaning: padding, begin and end, placeholders."""
    fields = (field for part in sub_configs(config) for field in vars(part).items())
    return frozenset(number for name, value in fields if name.endswith(_ID_ENDINGS) for number in numbers_in(value))


def numbers_in(value: Any) -> list[int]:
    """The whole numbers in a field: in a list or a dict of any depth, or itself."""
    if isinstance(value, dict):
        return numbers_in(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [number for each in value for number in numbers_in(each)]
    return [value] if isinstance(value, int) and not isinstance(value, bool) else []


def change_fields(part: Any, change: Callable[[str, Any], Any]) -> None:
    """Set each field to what `change(name, value)` gives, where that is something else."""
    for name, value in list(vars(part).items()):
        changed = change(name, value)
        if changed is not value and changed != value:
            setattr(part, name, changed)


def add_parts(config: Any) -> None:
    """Give a composite model the parts for other modalities that its default leaves out, with their own defaults."""
    from transformers import AutoConfig

    for name, spec in getattr(type(config), "sub_configs_defaults", {}).items():
        if name not in _MODALITIES or vars(config).get(name) is not None:
            continue
        kind = getattr(spec, "model_type", None)
        if spec.config_class is not AutoConfig:
            setattr(config, name, spec.config_class())
        elif kind is not None:
            setattr(config, name, AutoConfig.for_model(kind))


def agree(config: Any, parts: list[Any]) -> None:
    """Give the parts for other modalities the width of the text part, in place."""
    try:
        text = config.get_text_config()  # The part that reads tokens; the whole one in a model of one part.
    except (AttributeError, ValueError):
        return
    width = getattr(text, "hidden_size", None)
    if text is config or not isinstance(width, int):
        return
    for part in parts:
        for name in _TEXT_WIDTHS:
            if part is not text and part is not config and isinstance(vars(part).get(name), int):
                setattr(part, name, width)
