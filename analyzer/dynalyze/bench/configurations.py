"""The configurations that a benchmark compares with eager: by name, and as the program itself compiles."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration
from dynalyze.capture.events import BundleWritten
from dynalyze.capture.settings import CompileArguments, Dynamic, settings_of
from dynalyze.text.errors import UsageError

EAGER = Configuration("eager", compile=False)
DEFAULT = Configuration("default")
CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
# Names that mean the same as a longer one.
ALIASES = {
    "compile": "default",
    "compiled": "default",
    "inductor": "default",
    "regions": "regional",
    "blocks": "regional",
    "dynamic": "dynamic=on",
    "static": "dynamic=off",
    "as-written": AS_WRITTEN,
}
_SWITCHES: dict[str, dict[str, Any]] = {
    "default": {},
    "regional": {"region": "blocks"},
    "accelerate": {"region": "accelerate"},
    "fullgraph": {"fullgraph": True},
    **{mode: {"mode": mode} for mode in MODES},
    **{f"dynamic={value}": {"dynamic": value} for value in ("auto", "on", "off", "mark")},
}
_BACKEND = "backend="
_ON_CPU = ("default", "dynamic", "fullgraph", "regional")
_ON_CUDA = (*_ON_CPU, "reduce-overhead", "max-autotune-no-cudagraphs")


def matrix(device: str, default: Configuration = DEFAULT) -> tuple[Configuration, ...]:
    """The sensible set for a device. CUDA graphs and Triton autotuning do not exist on a CPU."""
    names = _ON_CUDA if device.startswith("cuda") else _ON_CPU
    return tuple(configuration(name, default) for name in names)


def names_default(text: str) -> bool:
    """Whether `--configs` names the configuration that the compile options apply to."""
    return any("default" in _parts(name) for name in text.split(","))


def configurations(text: str, default: Configuration = DEFAULT) -> tuple[Configuration, ...]:
    """The configurations of `--configs`; eager need not be named. Raises UsageError for an unknown name."""
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise UsageError("--configs is empty; for example --configs default,reduce-overhead")
    found = {name: configuration(name, default) for name in names if name != "eager"}
    return tuple(dict.fromkeys(found.values()))


def configuration(name: str, default: Configuration = DEFAULT) -> Configuration:
    """One configuration from its name: parts joined by +; `default` is the configuration of that name. Raises
    UsageError for an unknown or repeated part.
    """
    parts = _parts(name)
    if AS_WRITTEN in parts:
        if len(parts) > 1:
            raise UsageError(
                f'--configs {name}: "{AS_WRITTEN}" cannot be combined: the program has chosen its arguments'
            )
        return replace(DEFAULT, name=AS_WRITTEN)
    settings: dict[str, Any] = {}
    for part in parts:
        for key, value in _settings(part, name, default).items():
            if key in settings:
                raise UsageError(f"--configs {name}: {key} is set twice")
            settings[key] = value
    return replace(DEFAULT, name="+".join(parts), **settings)


def given(chosen: Configuration) -> dict[str, Any]:
    """The arguments that a configuration sets, for the report: with the names of torch.compile where it has them."""
    autocast = {"autocast": chosen.autocast} if chosen.autocast else {}
    if chosen.name == AS_WRITTEN:
        return {**chosen.written, **autocast}
    if not chosen.compile:
        return autocast
    values = {key: getattr(chosen, key) for key in ("mode", "dynamic", "fullgraph", "region")}
    changed = {key: value for key, value in values.items() if value != getattr(DEFAULT, key)}
    return {"backend": chosen.backend, **changed, **autocast}


def _parts(name: str) -> list[str]:
    return [ALIASES.get(part.strip(), part.strip()) for part in name.split("+")]


def _settings(part: str, name: str, default: Configuration) -> dict[str, Any]:
    if part == "default":
        return {
            key: value
            for key, value in settings_of(default, CompileArguments).items()
            if value != getattr(DEFAULT, key)
        }
    if part.startswith(_BACKEND) and part != _BACKEND:
        return {"backend": part.removeprefix(_BACKEND)}
    if part in _SWITCHES:
        return _SWITCHES[part]
    if part == "eager":
        raise UsageError(f"--configs {name}: eager is not compiled and cannot be combined")
    known = ["eager", AS_WRITTEN, *_SWITCHES, *ALIASES, _BACKEND + "NAME"]
    near = difflib.get_close_matches(part, known, n=1, cutoff=0.0)[0]
    raise UsageError(
        f"--configs {name}: no configuration is called {part!r}; did you mean {near}? dynalyze bench --help lists them"
    )


_DYNAMIC: dict[Any, Dynamic] = {True: "on", False: "off"}


def program_config(event: BundleWritten) -> Configuration | None:
    """The configuration of a program's own compiles; None if it compiled nothing.

    If several compiles differ, the configuration has Inductor and CUDA graphs if any of them has.
    """
    if not event.written:
        return None
    given = [{"backend": "inductor", **options} for options in event.options] or [{"backend": "inductor"}]
    backends, modes = ([str(each.get(key) or "") for each in given] for key in ("backend", "mode"))
    dynamics: list[Dynamic] = [_DYNAMIC.get(each.get("dynamic")) or "auto" for each in given]
    shown = given[0]
    if any(each != shown for each in given):  # The arguments for the report, by callable.
        labels = [f"{number}. {name}" for number, name in enumerate(event.names, 1)]
        texts = [", ".join(f"{key}={value}" for key, value in each.items()) for each in given]
        shown = dict(zip(labels, texts, strict=False))
    return Configuration(
        AS_WRITTEN,
        backend="inductor" if "inductor" in backends else backends[0],
        mode=next((mode for mode in modes if mode in CUDA_GRAPH_MODES), modes[0]) or None,
        dynamic=dynamics[0] if len(set(dynamics)) == 1 else "auto",
        fullgraph=all(each.get("fullgraph") for each in given),
        written=shown,
    )
