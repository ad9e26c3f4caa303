"""From the words of the command line to the items of a sweep: every target in every configuration, each once."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dynalyze.capture.settings import CompileOptions
from dynalyze.fleet.interpreter import Interpreter, inquire
from dynalyze.fleet.items import Item, with_key
from dynalyze.fleet.settings import applied, read_toml
from dynalyze.launch.spec import TargetSpec, read_target
from dynalyze.text.errors import UsageError

_HF = "hf:"
_ALL = "hf:all"
_WILD = re.compile(r"[*?[]")
_CLASS_NAME = re.compile(r"[A-Za-z_]\w*")
Configurations = Mapping[str, Mapping[str, Any]]
_PLAIN: Configurations = {"default": {}}


@dataclass(frozen=True)
class NamedTarget:
    """One target as it was named: either `spec`, or a `pattern` of architectures that the interpreter lists."""

    text: str
    spec: TargetSpec | None = None
    pattern: str | None = None

    @property
    def class_name(self) -> str | None:
        """The class that the interpreter must have; None for folders, hub ids and targets of other kinds."""
        if self.spec is None or self.spec.mode != "transformers":
            return None
        name = self.spec.name or ""
        return name if _CLASS_NAME.fullmatch(name) and not Path(name).exists() else None


def named_targets(text: str, arguments: tuple[str, ...] = (), inputs: tuple[str, ...] = ()) -> list[NamedTarget]:
    """What one word of the command line stands for, in order.

    Raises:
        UsageError: it stands for nothing; the message says what to do.
    """
    if text.startswith(_HF):
        pattern = text.removeprefix(_HF)
        if text == _ALL or (_WILD.search(pattern) and not Path(pattern).exists()):
            return [NamedTarget(text, pattern=pattern)]
        return [NamedTarget(text, spec=_spec(text, (), ()))]
    path = Path(text)
    if path.is_dir():
        found = sorted(file for file in path.glob("*.py") if file.name not in ("__init__.py", "__main__.py"))
        if not found:
            raise UsageError(f"{text}: a folder without Python files; name a folder that holds some, or a glob")
        return [NamedTarget(str(file), _spec(str(file), arguments, inputs)) for file in found]
    if _WILD.search(text) and not path.exists():
        return _of_glob(text, arguments, inputs)
    return [NamedTarget(text, spec=_spec(text, arguments, inputs))]


def _of_glob(text: str, arguments: tuple[str, ...], inputs: tuple[str, ...]) -> list[NamedTarget]:
    """A glob of files, folders, or both; `models/*.py:Net` names the same object in each file."""
    files, colon, name = text.rpartition(":")
    if not colon or Path(name).suffix or "/" in name:
        files, colon, name = text, "", ""
    found: list[str] = []
    for match in sorted(glob.glob(files, recursive=True)):  # noqa: PTH207  the pattern may be absolute
        path = Path(match)
        if path.is_dir() and not name:
            found += [str(file) for file in sorted(path.glob("*.py"))]
        elif path.suffix == ".py":
            found.append(f"{match}{colon}{name}")
    if not found:
        raise UsageError(f"{text}: no Python file is called like that")
    return [NamedTarget(file, _spec(file, arguments, inputs)) for file in found]


def _spec(text: str, arguments: tuple[str, ...], inputs: tuple[str, ...]) -> TargetSpec:
    """`--input` is for objects and arguments are for programs: a sweep may name both."""
    plain = read_target(text, None, ())
    if plain.mode == "object" and inputs:
        plain = read_target(text, None, (), inputs)
    if plain.mode in ("script", "object") and arguments:
        plain = replace(plain, arguments=arguments)
    return plain


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

    target: NamedTarget
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
            names = file.configurations if entry.configurations is None else entry.configurations
            chosen = request.configurations or {name: file.configurations[name] for name in names} or _PLAIN
            try:
                for target in named_targets(entry.target, entry.arguments, entry.inputs):
                    yield _Line(target, entry.settings, chosen, entry.name)
            except UsageError as error:
                raise UsageError(f"{entry.where}: {error}") from error
        return
    for target in named_targets(text, request.arguments, request.inputs):
        yield _Line(target, {}, request.configurations or _PLAIN)


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
    listed = interpreter.listed.get(target.pattern or "", [])
    if not (target.spec or listed):
        raise UsageError(f"{target.text}: no architecture of the installed transformers is called like that")
    for spec in [target.spec] if target.spec else [_spec(_HF + name, (), ()) for name in listed]:
        for name, settings in line.configurations.items():
            made, options = applied(request.asked(spec), request.options, {**line.settings, **settings})
            if made.path is not None:
                made = replace(made, path=os.path.abspath(made.path))  # noqa: PTH100  no link is followed
            # The name of its entry, that of the configuration, or both.
            named = [each for each in (line.name, name) if each and each != "default"]
            yield Item(made.spec, made, options, "+".join(named) or "default")
