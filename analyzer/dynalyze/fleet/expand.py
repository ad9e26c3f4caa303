"""From what the user named to the items of a sweep: every target in every configuration, each once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dynalyze.fleet.interpreter import Interpreter, inquire
from dynalyze.fleet.items import Item, with_key
from dynalyze.fleet.settings import applied
from dynalyze.fleet.targets import Wanted, of_pattern, wanted
from dynalyze.fleet.toml_file import Entry, read_toml
from dynalyze.launch.observe import CompileOptions
from dynalyze.launch.spec import TargetSpec
from dynalyze.text.errors import UsageError

Configurations = Mapping[str, Mapping[str, Any]]
_PLAIN: Configurations = {"default": {}}


@dataclass(frozen=True)
class Request:
    """What the command line asks for. `asked` puts the options for models into a target of that kind.

    `configurations` are those of --configs or --matrix; None leaves it to a TOML file, and to the options alone.
    """

    targets: tuple[str, ...]
    options: CompileOptions
    asked: Callable[[TargetSpec], TargetSpec]
    configurations: Configurations | None = None
    arguments: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    python: str | None = None
    shown: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Expanded:
    items: list[Item]
    interpreter: Interpreter
    notes: list[str]


@dataclass(frozen=True)
class _Line:
    """One target as it was named, with its own settings and the configurations that it is run in."""

    target: Wanted
    settings: Mapping[str, Any]
    configurations: Configurations
    name: str = ""


def expand(request: Request) -> Expanded:
    """All items in the order in which they were asked for.

    Raises:
        UsageError: a target, an option or a name of a model that there is not.
    """
    lines = [line for text in request.targets for line in _lines(text, request)]
    choices = _all_options(lines, request.options)
    interpreter = inquire(
        request.python,
        choices,
        sorted({line.target.pattern for line in lines if line.target.pattern}),
        sorted({name for line in lines if (name := line.target.class_name)}),
    )
    root = os.getcwd()  # noqa: PTH109  as the targets were named: no link is followed
    items = [
        with_key(replace(item, root=root), interpreter.versions, request.shown)
        for line in lines
        for item in _items(line, request, interpreter)
    ]
    unique = {item.key: item for item in reversed(items)}
    kept = list(dict.fromkeys(item.key for item in items))
    dropped = len(items) - len(kept)
    were = "item was" if dropped == 1 else "items were"
    notes = [f"{dropped} {were} named more than once and ran once."] if dropped else []
    return Expanded([unique[key] for key in kept], interpreter, notes)


def _lines(text: str, request: Request) -> Iterator[_Line]:
    if text.endswith(".toml"):
        file = read_toml(Path(text))
        for entry in file.entries:
            yield from _of_entry(entry, request.configurations or _chosen(entry, file.configurations))
        return
    for target in wanted(text, request.arguments, request.inputs):
        yield _Line(target, {}, request.configurations or _PLAIN)


def _chosen(entry: Entry, known: Configurations) -> Configurations:
    names = known if entry.configurations is None else entry.configurations
    return {name: known[name] for name in names} or _PLAIN


def _of_entry(entry: Entry, configurations: Configurations) -> Iterator[_Line]:
    try:
        for target in wanted(entry.target, entry.arguments, entry.inputs):
            yield _Line(target, entry.settings, configurations, entry.name)
    except UsageError as error:
        raise UsageError(f"{entry.where}: {error}") from error


def _all_options(lines: list[_Line], options: CompileOptions) -> list[CompileOptions]:
    """Every distinct way of compiling, for the interpreter to check before anything runs."""
    found: dict[CompileOptions, None] = {}
    for line in lines:
        for settings in line.configurations.values():
            spec = line.target.spec or TargetSpec("transformers", "")
            found[applied(spec, options, {**line.settings, **settings})[1]] = None
    return list(found)


def _items(line: _Line, request: Request, interpreter: Interpreter) -> Iterator[Item]:
    target = line.target
    specs = [target.spec] if target.spec else of_pattern(target, interpreter.listed.get(target.pattern or "", []))
    for spec in specs:
        for name, settings in line.configurations.items():
            made, options = applied(request.asked(spec), request.options, {**line.settings, **settings})
            if made.path is not None:
                made = replace(made, path=os.path.abspath(made.path))  # noqa: PTH100  no link is followed
            yield Item(made.spec, made, options, _shown_name(line.name, name))


def _shown_name(own: str, configuration: str) -> str:
    """The name of an item's settings: that of its entry, that of the configuration, or both."""
    named = [name for name in (own, configuration) if name and name != "default"]
    return "+".join(named) or "default"
