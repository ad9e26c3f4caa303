"""What configurations say: fields of many names, the configurations inside others, and tokens with a meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynalyze.capture.hf.parts import numbers_in

# How the fields of a configuration that hold a token's id end.
_ID_ENDINGS = ("_token_id", "_token_ids", "_token_index", "_code_id")


def first(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these fields of a configuration that is there and not None."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    return default


def sub_configs(config: Any) -> Iterator[Any]:
    """The configuration and all configurations inside it."""
    yield config
    for name, value in vars(config).items():
        if not name.startswith("_") and hasattr(value, "model_type") and hasattr(value, "to_dict"):
            yield from sub_configs(value)


def special_ids(config: Any) -> frozenset[int]:
    """Every token id that the configuration gives a meaning: padding, begin and end, placeholders."""
    found: set[int] = set()
    for part in sub_configs(config):
        for name, value in vars(part).items():
            if name.endswith(_ID_ENDINGS):
                found.update(numbers_in(value))
    return frozenset(found)
