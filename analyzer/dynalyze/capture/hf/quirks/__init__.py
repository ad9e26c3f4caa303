"""What is odd about single architectures: functions and rows of tables for the model types that they name.

There are five kinds of quirk, and a model type has at most one of each:

- `@completes("bamba")`: `function(config)` sets, in place, what the defaults leave to a user, at full size as well;
- `@shrinks("lilt")`: `function(config)` changes a configuration that was made small, in place;
- `@makes_pixels("fuyu")`, `@makes_sounds("csm")`: `function(builder)` makes odd inputs before the generic code does;
- `@changes_inputs("tapas")`: `function(builder)` changes `builder.inputs`, which the generic code has made.

A model type is transformers' `model_type`; a configuration without one is named by its class. What only sets fields
or inputs is a row of a table: its types, with spaces between, and its values, which may be functions of the
configuration or of the builder. A file holds the quirks of one modality, and has any of these tables:

- `OPEN`: fields that the defaults leave open (None, or not there at all);
- `COMPLETE`, `SMALL`, `EQUAL`: fields to set in a default configuration, in a small one, or in both, also to another
  field, by its name;
- `PIXELS`, `SOUNDS`, `INPUTS`: inputs that are made before the generic code makes any, or changed after it.
"""

from __future__ import annotations

import copy
import functools
import importlib
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.input_builder import InputBuilder

_FILES = ("language", "vision", "image_text", "vision_language", "audio", "speech", "science")

Subject = TypeVar("Subject")
Table = dict[str, dict[str, Any]]


class Kind(Generic[Subject]):
    """One kind of quirk: a decorator that names model types, and their functions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.functions: dict[str, Callable[[Subject], None]] = {}

    def __call__(self, *model_types: str) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
        def register(function: Callable[[Subject], None]) -> Callable[[Subject], None]:
            for model_type in model_types:
                if model_type in self.functions:
                    raise ValueError(f"{model_type} has two quirks of the kind {self.name!r}")
                self.functions[model_type] = function
            return function

        return register

    def apply(self, config: Any, subject: Subject) -> None:
        """Run the function of the configuration's type on `subject`, where it has one."""
        load()
        function = self.functions.get(getattr(config, "model_type", "") or type(config).__name__)
        if function is not None:
            function(subject)


completes: Kind[Any] = Kind("completes")
shrinks: Kind[Any] = Kind("shrinks")
makes_pixels: Kind[InputBuilder] = Kind("makes_pixels")
makes_sounds: Kind[InputBuilder] = Kind("makes_sounds")
changes_inputs: Kind[InputBuilder] = Kind("changes_inputs")
KINDS: tuple[Kind[Any], ...] = (completes, shrinks, makes_pixels, makes_sounds, changes_inputs)


def _register(kind: Kind[Any], table: Table, apply: Callable[..., None]) -> None:
    """A function of that kind for each row, which gives `apply` the values of the row."""
    for model_types, values in table.items():
        kind(*model_types.split())(functools.partial(apply, values=values))


def fill(config: Any, values: dict[str, Any]) -> None:
    """Set those of the fields that are None or missing; "attn_config.rope_theta" is a field of a part."""
    for name, value in values.items():
        *parts, field = name.split(".")
        if getattr(functools.reduce(getattr, parts, config), field, None) is None:
            _assign(config, {name: value})


def _assign(config: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        *parts, field = name.split(".")
        own = value(config) if callable(value) else copy.deepcopy(value)
        setattr(functools.reduce(getattr, parts, config), field, own)


def _follow(config: Any, values: dict[str, Any]) -> None:
    """Set all of the fields; a text is the name of another field, whose value they take."""
    _assign(config, {name: operator.attrgetter(v) if isinstance(v, str) else v for name, v in values.items()})


def _add(builder: InputBuilder, values: dict[str, Any]) -> None:
    """Make those of the inputs that forward takes and that nobody has made yet."""
    _change(builder, {name: value for name, value in values.items() if name not in builder.inputs})


def _change(builder: InputBuilder, values: dict[str, Any]) -> None:
    """Make those of the inputs that forward takes, in place of what the generic code has made."""
    for name, value in values.items():
        if name in builder.takes:
            builder.inputs[name] = value(builder) if callable(value) else value


_TABLES: dict[str, tuple[tuple[Kind[Any], ...], Callable[..., None]]] = {
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
                _register(kind, getattr(module, table, {}), apply)
