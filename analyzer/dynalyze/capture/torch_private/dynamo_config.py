"""Dynamo's settings for a while: those that a change turns on, by name and value, as JSON has them.

Run on torch 2.13. A setting that this torch lacks is refused by name. A name without dots is one of
torch._dynamo.config; one of torch.compiler.config is written out.
"""

from __future__ import annotations

import contextlib
import importlib
import operator
from collections.abc import Iterator, Mapping
from typing import Any

_OF_FUNCTIONS = ("reorderable_logging_functions", "ignore_logging_functions")
"""Settings that are sets of functions; their values are lists of names here."""


_DYNAMO, _COMPILER = "torch._dynamo.config.", "torch.compiler.config."


class UnknownSetting(Exception):
    """This torch has no such setting, or there is no such function; the text says which."""


@contextlib.contextmanager
def settings_of_dynamo(values: Mapping[str, Any]) -> Iterator[None]:
    """Run what follows with these settings of torch._dynamo.config. Raises UnknownSetting: torch lacks one, or a
    function that is to be in one.
    """
    if not values:
        yield
        return
    import torch._dynamo
    import torch.compiler

    patches: dict[str, dict[str, Any]] = {_DYNAMO: {}, _COMPILER: {}}
    for name, value in values.items():
        module = _COMPILER if name.startswith(_COMPILER) else _DYNAMO
        short = name.removeprefix(module)
        try:
            now = operator.attrgetter(f"{module}{short}".removeprefix("torch."))(torch)
        except AttributeError:
            raise UnknownSetting(f"torch {torch.__version__} has no {module}{short}") from None
        patches[module][short] = {*now, *map(_function, value)} if name in _OF_FUNCTIONS else value
    with contextlib.ExitStack() as stack:
        for module, patch in patches.items():
            if patch:
                config = operator.attrgetter(module.removeprefix("torch.").removesuffix("."))(torch)
                stack.enter_context(config.patch(patch))
        yield


def _function(name: str) -> Any:
    module, _, attribute = name.partition(".")
    try:
        if not attribute:
            return getattr(importlib.import_module("builtins"), module)
        return operator.attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise UnknownSetting(f"there is no function {name}") from error
