"""What is odd about single architectures: functions and rows of tables for the model types that they name.

There are five kinds of quirk, and a model type has at most one of each:

- `@completes("bamba")`: `function(config)` sets, in place, what the defaults leave to a user, at full size as well;
- `@shrinks("lilt")`: `function(config)` changes a configuration that was made small, in place;
- `@makes_pixels("fuyu")`, `@makes_sounds("csm")`: `function(builder)` makes odd inputs before the generic code does;
- `@changes_inputs("tapas")`: `function(builder)` changes `builder.inputs`, which the generic code has made.

A model type is transformers' `model_type`; a configuration without one is named by its class. What only sets fields
or inputs is a row of a table: `fill_open`, `set_small`, `keep_equal`, `add_inputs`. A row may be for several types,
with spaces between, and a value may be a function of the configuration or of the builder. A file holds the quirks of
one modality.
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

_FILES = ("language", "vision", "image_text", "vision_language", "documents", "audio", "speech", "science")

Subject = TypeVar("Subject")


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


@functools.cache
def load() -> None:
    """Import all files of quirks. By name: they import the code that asks for them."""
    for name in _FILES:
        importlib.import_module(f"{__name__}.{name}")


def fill_open(table: dict[str, dict[str, Any]]) -> None:
    """Rows of `completes`: fields that the defaults leave open (None, or not there at all), and their values."""
    for model_types, values in table.items():
        completes(*model_types.split())(functools.partial(fill, values=values))


def set_small(table: dict[str, dict[str, Any]]) -> None:
    """Rows of `shrinks`: fields with the values that they have in a small variant."""
    for model_types, values in table.items():
        shrinks(*model_types.split())(functools.partial(_assign, values=values))


def keep_equal(table: dict[str, dict[str, Any]], *kinds: Kind[Any]) -> None:
    """Rows of those kinds: fields that take the value of another one, by its name, or of a function."""
    for model_types, sources in table.items():
        values = {name: each if callable(each) else operator.attrgetter(each) for name, each in sources.items()}
        for kind in kinds:
            kind(*model_types.split())(functools.partial(_assign, values=values))


def add_inputs(kind: Kind[InputBuilder], table: dict[str, dict[str, Any]]) -> None:
    """Rows of that kind: inputs with their values, or functions of the builder, for what forward takes.

    Those of `changes_inputs` take the place of what the generic code has made.
    """
    for model_types, inputs in table.items():
        kind(*model_types.split())(functools.partial(_add, inputs=inputs, replaces=kind is changes_inputs))


def _add(builder: InputBuilder, inputs: dict[str, Any], replaces: bool) -> None:
    for name, value in inputs.items():
        if name in builder.takes and (replaces or name not in builder.inputs):
            builder.inputs[name] = value(builder) if callable(value) else value


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
