"""What is odd about single architectures: rows of tables, and functions, for the model types that they name.

There are five kinds of quirk, and a model type has at most one of each:

- `@completes("bamba")`: `function(config)` sets, in place, what the defaults leave to a user, at full size as well;
- `@shrinks("lilt")`: `function(config)` changes a configuration that was made small, in place;
- `@makes_pixels("fuyu")`, `@makes_sounds("csm")`: `function(builder, config)` makes odd inputs before the generic code;
- `@changes_inputs("tapas")`: `function(builder, config)` changes `builder.inputs`, which the generic code has made.

A model type is transformers' `model_type`; a configuration without one is named by its class. What only sets fields
or inputs is a row of a table: its types, with spaces between, and its values, which may be functions of the same
arguments. A file holds the quirks of one modality, and has any of these tables:

- `OPEN`: fields that the defaults leave open (None, or not there at all);
- `COMPLETE`, `SMALL`, `EQUAL`: fields to set in a default configuration, in a small one, or in both, also to another
  field, by its name;
- `PIXELS`, `SOUNDS`, `INPUTS`: inputs that are made before the generic code makes any, or changed after it, each only
  where forward takes it. None stands for no such input; a `placeholder` is for the inputs before it in its row.
"""

from __future__ import annotations

import copy
import functools
import importlib
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder

_FILES = ("language", "vision", "vision_language", "sound", "science")

Quirk = TypeVar("Quirk", bound=Callable[..., None])
Table = dict[str, dict[str, Any]]


class Kind:
    """One kind of quirk: a decorator that names model types, and their functions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.functions: dict[str, Callable[..., None]] = {}

    def __call__(self, *model_types: str) -> Callable[[Quirk], Quirk]:
        def register(function: Quirk) -> Quirk:
            for model_type in model_types:
                if model_type in self.functions:
                    raise ValueError(f"{model_type} has two quirks of the kind {self.name!r}")
                self.functions[model_type] = function
            return function

        return register

    def apply(self, config: Any, *builder: InputBuilder) -> None:
        """Run the function of the configuration's type, where it has one."""
        load()
        function = self.functions.get(getattr(config, "model_type", "") or type(config).__name__)
        if function is not None:
            function(*builder, config)


KINDS = tuple(map(Kind, ("completes", "shrinks", "makes_pixels", "makes_sounds", "changes_inputs")))
completes, shrinks, makes_pixels, makes_sounds, changes_inputs = KINDS


def fill(config: Any, values: dict[str, Any]) -> None:
    """Set those of the fields that are None or missing; "attn_config.rope_theta" is a field of a part."""
    for name, value in values.items():
        *parts, field = name.split(".")
        if getattr(functools.reduce(getattr, parts, config), field, None) is None:
            _follow(config, {name: value if callable(value) else lambda _, value=value: value})


def _follow(config: Any, values: dict[str, Any]) -> None:
    """Set all of the fields; a text is the name of another field, whose value they take."""
    for name, value in values.items():
        *parts, field = name.split(".")
        value = operator.attrgetter(value) if isinstance(value, str) else value
        own = value(config) if callable(value) else value
        setattr(functools.reduce(getattr, parts, config), field, copy.deepcopy(own))


def _add(builder: InputBuilder, config: Any, values: dict[str, Any]) -> None:
    """Make those of the inputs that forward takes and that nobody has made yet."""
    _change(builder, config, {name: value for name, value in values.items() if name not in builder.inputs})


def _change(builder: InputBuilder, config: Any, values: dict[str, Any]) -> None:
    """Make those of the inputs that forward takes, in place of what the generic code has made."""
    for name, value in values.items():
        if name in builder.takes or (name == "placeholder" and builder.inputs.keys() & values.keys()):
            made = value(builder, config) if callable(value) else value
            if name == "placeholder":
                builder.placeholders.append(made)
            elif made is None:
                builder.inputs.pop(name, None)
            else:
                builder.inputs[name] = made


_TABLES: dict[str, tuple[tuple[Kind, ...], Callable[..., None]]] = {
    "OPEN": ((completes,), fill),
    "COMPLETE": ((completes,), _follow),
    "SMALL": ((shrinks,), _follow),
    "EQUAL": ((completes, shrinks), _follow),
    "PIXELS": ((makes_pixels,), _add),
    "SOUNDS": ((makes_sounds,), _add),
    "INPUTS": ((changes_inputs,), _change),
}


@functools.cache
def load() -> None:
    """Import all files of quirks, and register their tables. By name: they import the code that asks for them."""
    for file in _FILES:
        module = importlib.import_module(f"{__name__}.{file}")
        for table, (kinds, apply) in _TABLES.items():
            for kind in kinds:
                for model_types, values in getattr(module, table, {}).items():
                    kind(*model_types.split())(functools.partial(apply, values=values))
