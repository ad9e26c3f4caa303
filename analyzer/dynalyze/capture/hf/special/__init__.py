"""What is odd about single architectures: one module a `model_type`, loaded by its name where it exists.

A module has any of these functions:

- `complete(config)` sets, in place, what the defaults leave to a user, at full size as well;
- `shrink(config)` changes a configuration that was made small, in place;
- `pixels(made)` and `sounds(made)` make inputs of odd forms before the generic code does;
- `inputs(model, request, inputs)` returns the inputs made from those that the generic code made.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from types import ModuleType
from typing import Any


def of(model_type: str | None) -> ModuleType | None:
    """The module of an architecture, None where nothing is odd about it."""
    name = re.sub(r"\W", "_", model_type or "")
    if not name:
        return None
    full_name = f"{__name__}.{name}"
    return importlib.import_module(full_name) if importlib.util.find_spec(full_name) else None


def for_config(config: Any) -> ModuleType | None:
    """The module of a configuration; where its type has no name, that of its class in lower case and underscores."""
    named = getattr(config, "model_type", "")
    return of(named or re.sub(r"(?<!^)(?=[A-Z])", "_", type(config).__name__.removesuffix("Config")).lower())
