"""What items are run with: settings by their long names, configurations (--configs, --matrix), and a TOML file as
docs/how-to/sweep.md has it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dynalyze.bench.configurations import ALIASES, MODES
from dynalyze.capture.libraries import prefix_of
from dynalyze.capture.settings import COMPILE_OPTIONS, MODEL_OPTIONS, PHASES, CompileOptions
from dynalyze.files.project_file import check_keys, nearest, parsed
from dynalyze.launch.spec import TargetSpec
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import dashed

# Running code that came with a checkpoint is allowed on the command line alone.
OF_MODELS = tuple(name for name in MODEL_OPTIONS if name != "trust_remote_code")
_CHOICES: dict[str, tuple[str, ...]] = {
    "dynamic": ("auto", "on", "off", "mark"), "phase": PHASES, "init": ("fast", "real"),
}  # fmt: skip
_TEXTS = ("backend", "mode", "device", "dtype", "attn_implementation")
_NUMBERS = ("batch", "sequence", "new_tokens", "steps")
Settings = dict[str, Any]
Configurations = Mapping[str, Settings]

MATRIX = "default,fullgraph,dynamic=on,dynamic=mark,train"
"""The set that makes sense where the question is what breaks, and not how fast it is."""

_PARTS: dict[str, Settings] = {
    "default": {},
    "fullgraph": {"fullgraph": True},
    "train": {"train": True},
    "eval": {"train": False},
    "inductor": {"backend": "inductor"},
    **{f"dynamic={value}": {"dynamic": value} for value in ("auto", "on", "off", "mark")},
    **{mode: {"mode": mode, "backend": "inductor"} for mode in MODES},
}
_ALIASES = {name: part for name, part in ALIASES.items() if part in _PARTS and name != "inductor"}
_OF_ITEM = ("target", "name", "arguments", "input", "configurations")
_SETTINGS = (*COMPILE_OPTIONS, "eval", *OF_MODELS)


def applied(
    spec: TargetSpec, options: CompileOptions, settings: Mapping[str, Any]
) -> tuple[TargetSpec, CompileOptions]:
    """Target and options with these settings; settings of models leave other targets as they are."""
    modelling = {name: value for name, value in settings.items() if name in OF_MODELS}
    if spec.asked is not None and modelling:
        spec = replace(spec, asked=replace(spec.asked, **modelling))
    return spec, replace(options, **{name: value for name, value in settings.items() if name in COMPILE_OPTIONS})


def configurations(text: str) -> dict[str, Settings]:
    """The settings of each name in `--configs`. Raises UsageError for no name, an unknown one, or one that sets
    something twice.
    """
    found: dict[str, Settings] = {}
    for name in filter(None, (part.strip() for part in text.split(","))):
        parts = [_ALIASES.get(part.strip(), part.strip()) for part in name.split("+")]
        settings: Settings = {}
        for key, value in (pair for part in parts for pair in _part_settings(part, name).items()):
            if key in settings:
                raise UsageError(f"--configs {name}: {key} is set twice")
            settings[key] = value
        found["+".join(parts)] = settings
    if not found:
        raise UsageError("--configs is empty; for example --configs default,train+dynamic=on")
    return found


def _part_settings(part: str, name: str) -> Mapping[str, Any]:
    if part in _PARTS:
        return _PARTS[part]
    if (backend := part.removeprefix("backend=")) not in ("", part):
        return {"backend": backend}
    if part in ("regional", "accelerate", "eager"):
        raise UsageError(f"--configs {name}: {part} is measured by dynalyze bench; a sweep asks what compiling does")
    near = difflib.get_close_matches(part, [*_PARTS, *_ALIASES, "backend=NAME"], n=1, cutoff=0.0)
    raise UsageError(f"--configs {name}: no configuration is called {part!r}; did you mean {near[0]}?")


@dataclass(frozen=True)
class SweepEntry:
    """A word of the command line, or an `[[item]]` of a file (`where` says which), with its configurations."""

    target: str
    where: str = ""
    name: str = ""
    configurations: Configurations = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


def read_toml(path: Path) -> list[SweepEntry]:
    """The checked entries of a file, whose paths are relative to its folder. Raises UsageError, with the place, where
    it is unreadable, no TOML, or has an unknown key or a value of the wrong type.
    """
    document = parsed(path)
    _check_keys(document, ("item", "configurations"), str(path))
    tables, items = document.get("configurations", {}), document.get("item", [])
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UsageError(f"{path}: configurations are tables: [configurations.NAME]")
    configurations = {name: _table_settings(table, f"{path}, configurations.{name}") for name, table in tables.items()}
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise UsageError(f"{path}: it names no target; each begins with a line [[item]]")
    return [_entry(item, f"{path}, item {number}", path, configurations) for number, item in enumerate(items, 1)]


def _entry(item: Mapping[str, Any], where: str, path: Path, known: dict[str, Settings]) -> SweepEntry:
    _check_keys(item, (*_OF_ITEM, *_SETTINGS), where)
    target = item.get("target")
    if not isinstance(target, str) or not target:
        raise UsageError(f'{where}: it needs a target, e.g. target = "hf:LlamaModel"')
    name = item.get("name", "")
    if not isinstance(name, str):
        raise UsageError(f"{where}: name is a text, not {name!r}")
    chosen = _texts(item, "configurations", where) if "configurations" in item else tuple(known)
    for each in chosen:
        if each not in known:
            raise UsageError(f"{where}: no configuration is called {each!r}{nearest(each, known)}")
    settings = _table_settings({key: value for key, value in item.items() if key not in _OF_ITEM}, where)
    arguments, inputs = (_texts(item, key, where) for key in ("arguments", "input"))
    configurations = {each: known[each] for each in chosen}
    return SweepEntry(_placed(target, path.parent), where, name, configurations, settings, arguments, inputs)


def _table_settings(table: Mapping[str, Any], where: str) -> Settings:
    _check_keys(table, _SETTINGS, where)
    found = {key.replace("-", "_"): _checked(key.replace("-", "_"), value, where) for key, value in table.items()}
    if "eval" in found:
        found["train"] = not found.pop("eval")
    return found


def _checked(name: str, value: Any, where: str) -> Any:
    if name == "dynamic" and isinstance(value, bool):
        return "on" if value else "off"
    if name == "size":
        value = tuple(value) if isinstance(value, list) else (value,)
        is_valid = all(type(each) is int and each > 0 for each in value)
        kind = "a whole number above zero, or a list of them"
    elif name in _CHOICES:
        is_valid, kind = value in _CHOICES[name], f"one of {', '.join(_CHOICES[name])}"
    elif name in _NUMBERS:
        is_valid, kind = type(value) is int and value > 0, "a whole number above zero"
    elif name in _TEXTS:
        is_valid, kind = isinstance(value, str) and value != "", "a text"
    else:
        is_valid, kind = isinstance(value, bool), "true or false"
    if not is_valid:
        raise UsageError(f"{where}: {dashed(name)} is {kind}, not {value!r}")
    return value


def _check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    if any(dashed(key) == "trust-remote-code" for key in table):
        raise UsageError(f"{where}: trust-remote-code is given on the command line alone")
    check_keys(table, known, where)


def _texts(item: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = item.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise UsageError(f"{where}: {key} is a text or a list of texts, not {value!r}")
    return tuple(values)


def _placed(target: str, folder: Path) -> str:
    """A target of a file in `folder` as seen from here; names of modules and models stay."""
    if prefix := prefix_of(target):
        path = target.removeprefix(f"{prefix}:")
        return f"{prefix}:{folder / path}" if path.startswith(".") else target
    file = target.partition(":")[0]
    is_path = file.endswith(".py") or "/" in file or os.path.isdir(folder / file)  # noqa: PTH112  any word
    return str(folder / target) if is_path and not Path(file).is_absolute() else target
