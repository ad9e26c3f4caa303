"""Settings of an item by their long names, as configurations and a TOML file give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from dynalyze.capture.hf.options import PHASES, ModelOptions
from dynalyze.launch.observe import CompileOptions
from dynalyze.launch.spec import TargetSpec
from dynalyze.text.errors import UsageError

OF_COMPILING = tuple(each.name for each in fields(CompileOptions) if each.name != "given")
# Running code that came with a checkpoint is allowed on the command line alone.
OF_MODELS = tuple(each.name for each in fields(ModelOptions) if each.name != "trust_remote_code")
_CHOICES: dict[str, tuple[str, ...]] = {
    "dynamic": ("auto", "on", "off", "mark"), "phase": PHASES, "init": ("fast", "real"),
}  # fmt: skip
_TEXTS = ("backend", "mode", "device", "dtype", "attn_implementation")
_NUMBERS = ("batch", "sequence", "new_tokens")


def checked(name: str, value: Any, where: str) -> Any:
    """A setting's value, if it is one.

    Raises:
        UsageError: of another type, or none of the choices.
    """
    if name in _CHOICES:
        if name == "dynamic" and isinstance(value, bool):
            return "on" if value else "off"
        if value in _CHOICES[name]:
            return value
        raise UsageError(f"{where}: {_long(name)} is one of {', '.join(_CHOICES[name])}, not {value!r}")
    if name in _NUMBERS:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise UsageError(f"{where}: {_long(name)} is a whole number above zero, not {value!r}")
    if name in _TEXTS:
        if isinstance(value, str) and value:
            return value
        raise UsageError(f"{where}: {_long(name)} is a text, not {value!r}")
    if not isinstance(value, bool):
        raise UsageError(f"{where}: {_long(name)} is true or false, not {value!r}")
    return value


def applied(
    spec: TargetSpec, options: CompileOptions, settings: Mapping[str, Any]
) -> tuple[TargetSpec, CompileOptions]:
    """Target and options with these settings over what they had. Those of models leave other targets as they are."""
    compiling = {name: value for name, value in settings.items() if name in OF_COMPILING}
    modelling = {name: value for name, value in settings.items() if name in OF_MODELS}
    if spec.asked is not None and modelling:
        spec = replace(spec, asked=replace(spec.asked, **modelling))
    return spec, replace(options, **compiling)


def _long(name: str) -> str:
    return name.replace("_", "-")
