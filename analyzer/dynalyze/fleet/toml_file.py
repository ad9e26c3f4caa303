"""A TOML file of targets and configurations:

[[item]]
target = "hf:Llama*"
batch = 4

[[item]]
target = "models/ranker.py:Net"
name = "long"
input = "torch.randn(2, 512)"
configurations = ["fast"]

[configurations.fast]
dynamic = "on"
fullgraph = true
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynalyze.files.project_file import check_keys, dashed, nearest, parsed
from dynalyze.fleet.settings import OF_COMPILING, OF_MODELS, checked
from dynalyze.text.errors import UsageError

_OF_ITEM = ("target", "name", "arguments", "input", "configurations")
_SETTINGS = (*OF_COMPILING, "eval", *OF_MODELS)
_LISTS = ("arguments", "input")


@dataclass(frozen=True)
class Entry:
    """One `[[item]]`. Without `configurations` each of the file's is applied."""

    target: str
    where: str
    name: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    configurations: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TomlFile:
    entries: list[Entry]
    configurations: dict[str, dict[str, Any]]


def read_toml(path: Path) -> TomlFile:
    """Read and check the file. Paths in it are relative to the folder that it is in.

    Raises:
        UsageError: unreadable, no TOML, an unknown key, a value of another type; one line that says where.
    """
    document = parsed(path)
    _check_keys(document, ("item", "configurations"), str(path))
    tables = document.get("configurations", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UsageError(f"{path}: configurations are tables: [configurations.NAME]")
    configurations = {name: _settings(table, f"{path}, configurations.{name}") for name, table in tables.items()}
    items = document.get("item", [])
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise UsageError(f"{path}: it names no target; each begins with a line [[item]]")
    entries = [_entry(item, f"{path}, item {number}", path, configurations) for number, item in enumerate(items, 1)]
    return TomlFile(entries, configurations)


def _entry(item: Mapping[str, Any], where: str, path: Path, known: Mapping[str, Any]) -> Entry:
    _check_keys(item, (*_OF_ITEM, *_SETTINGS), where)
    target = item.get("target")
    if not isinstance(target, str) or not target:
        raise UsageError(f'{where}: it needs a target, e.g. target = "hf:LlamaModel"')
    name = item.get("name", "")
    if not isinstance(name, str):
        raise UsageError(f"{where}: name is a text, not {name!r}")
    chosen = _texts(item, "configurations", where) if "configurations" in item else None
    for each in chosen or ():
        if each not in known:
            raise UsageError(f"{where}: no configuration is called {each!r}{nearest(each, known)}")
    settings = _settings({key: value for key, value in item.items() if key not in _OF_ITEM}, where)
    arguments, inputs = (_texts(item, key, where) for key in _LISTS)
    return Entry(_placed(target, path.parent), where, name, settings, arguments, inputs, chosen)


def _settings(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    _check_keys(table, _SETTINGS, where)
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name == "eval":
            found["train"] = not checked("train", value, where)
        else:
            found[name] = checked(name, value, where)
    return found


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
    """A path that is relative to the file, as seen from here; names of modules and of models stay."""
    if target.startswith("hf:"):
        path = target.removeprefix("hf:")
        return f"hf:{folder / path}" if path.startswith(".") else target
    file = target.partition(":")[0]
    is_path = file.endswith(".py") or "/" in file or os.path.isdir(folder / file)  # noqa: PTH112  any word
    return str(folder / target) if is_path and not Path(file).is_absolute() else target
