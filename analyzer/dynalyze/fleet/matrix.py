"""Configurations of a sweep: names joined by +, as `dynalyze bench` has them, and what they set."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from dynalyze.bench.configurations import ALIASES, MODES
from dynalyze.text.errors import UsageError

Settings = dict[str, Any]

MATRIX = ("default", "fullgraph", "dynamic=on", "dynamic=mark", "train")
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
_BACKEND = "backend="


def configurations(text: str) -> dict[str, Settings]:
    """What each name in `--configs` sets, over what the options of the command line set.

    Raises:
        UsageError: no name, one that is not known, or one that says a thing twice.
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise UsageError("--configs is empty; for example --configs default,train+dynamic=on")
    return dict(configuration(name) for name in names)


def matrix() -> dict[str, Settings]:
    """The configurations of `--matrix`."""
    return dict(configuration(name) for name in MATRIX)


def configuration(name: str) -> tuple[str, Settings]:
    """One configuration: its full name, and what it sets."""
    parts = [_ALIASES.get(part.strip(), part.strip()) for part in name.split("+")]
    settings: Settings = {}
    for part in parts:
        for key, value in _settings(part, name).items():
            if key in settings:
                raise UsageError(f"--configs {name}: {key} is set twice")
            settings[key] = value
    return "+".join(parts), settings


def _settings(part: str, name: str) -> Mapping[str, Any]:
    if part in _PARTS:
        return _PARTS[part]
    if part.startswith(_BACKEND) and part != _BACKEND:
        return {"backend": part.removeprefix(_BACKEND)}
    if part in ("regional", "accelerate", "eager"):
        raise UsageError(f"--configs {name}: {part} is measured by dynalyze bench; a sweep asks what compiling does")
    near = difflib.get_close_matches(part, [*_PARTS, *_ALIASES, _BACKEND + "NAME"], n=1, cutoff=0.0)
    raise UsageError(f"--configs {name}: no configuration is called {part!r}; did you mean {near[0]}?")
