"""From the words of the command line to the items of a sweep: every target in every configuration, each once."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from dynalyze.capture.libraries import is_pattern, library_facts, prefix_of
from dynalyze.capture.settings import CompileOptions
from dynalyze.launch.run import probe
from dynalyze.launch.spec import TargetSpec, read_target
from dynalyze.sweep.records import Item, with_key
from dynalyze.sweep.settings import SweepEntry, applied, read_toml
from dynalyze.text.errors import UsageError

_INQUIRY_SECONDS = 300.0
_WILD = re.compile(r"[*?[]")
_CLASS_NAME = re.compile(r"[A-Za-z_]\w*")


def named_targets(
    text: str, arguments: tuple[str, ...] = (), inputs: tuple[str, ...] = ()
) -> list[tuple[str, TargetSpec | None]]:
    """The targets of one word of the command line, in order; None for a pattern of models, which the interpreter lists.
    Raises UsageError where there is none.
    """
    path = Path(text)
    if prefix := prefix_of(text):
        return [(text, None if is_pattern(text.removeprefix(f"{prefix}:")) else _spec(text, (), ()))]
    if path.is_dir():
        files = [str(file) for file in sorted(path.glob("*.py")) if file.name not in ("__init__.py", "__main__.py")]
        if not files:
            raise UsageError(f"{text}: a folder without Python files; name a folder that holds some, or a glob")
    else:
        files = _of_glob(text) if _WILD.search(text) and not path.exists() else [text]
    return [(file, _spec(file, arguments, inputs)) for file in files]


def _of_glob(text: str) -> list[str]:
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
    return found


def _spec(text: str, arguments: tuple[str, ...], inputs: tuple[str, ...]) -> TargetSpec:
    """Without inputs for programs, and without arguments for models: a sweep may name both kinds."""
    plain = read_target(text, None, ())
    if plain.mode == "object" and inputs:
        plain = read_target(text, None, (), inputs)
    if plain.mode in ("script", "object") and arguments:
        plain = replace(plain, arguments=arguments)
    return plain


@dataclass(frozen=True)
class Request:
    """The command line; `asked` puts the options for models into a target of that kind.

    `configurations` are those of --configs or --matrix, None for those of a TOML file or the plain options.
    """

    targets: tuple[str, ...]
    options: CompileOptions
    asked: Callable[[TargetSpec], TargetSpec]
    configurations: Mapping[str, dict[str, Any]] | None = None
    arguments: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    python: str | None = None
    shown: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Expanded:
    items: list[Item]
    interpreter: Interpreter


class Interpreter(msgspec.Struct):
    """What the interpreter that will run the items answered; `listed` are the models behind each pattern."""

    versions: dict[str, str | None]
    listed: dict[str, list[str]] = {}
    mistakes: list[str] = []


def inquire(
    python: str | None, options: Sequence[CompileOptions], patterns: Sequence[str], names: Sequence[str]
) -> Interpreter:
    """The interpreter's answer to all questions at once. Raises UsageError where it cannot be used, or does not know a
    backend or a model.
    """
    request = {"compile": [asdict(each) for each in options], "patterns": list(patterns), "names": list(names)}
    python = python or sys.executable
    answer, status, said = probe(python, "inquire", request, _INQUIRY_SECONDS)
    if status is None:
        raise UsageError(f"{python} did not import torch within {_INQUIRY_SECONDS:.0f} s")
    try:
        interpreter = msgspec.convert(answer, Interpreter)
    except msgspec.ValidationError:
        raise UsageError(f"{python} cannot be used: {said or f'it ended with status {status}'}") from None
    if interpreter.mistakes:
        raise UsageError(interpreter.mistakes[0])
    return interpreter


def expand(request: Request) -> Expanded:
    """All items in the order of the command line. Raises UsageError for a target that does not exist."""
    lines = [line for text in request.targets for line in _lines(text, request)]
    # Every distinct way of compiling, for the interpreter to check before anything runs.
    choices = dict.fromkeys(
        applied(spec or TargetSpec("library", ""), request.options, {**entry.settings, **settings})[1]
        for entry, _, spec in lines
        for settings in entry.configurations.values()
    )
    patterns = {target for _, target, spec in lines if spec is None}
    names = {_name_to_check(spec) for _, _, spec in lines if spec is not None} - {""}
    interpreter = inquire(request.python, list(choices), sorted(patterns), sorted(names))
    root = os.getcwd()  # noqa: PTH109  as the targets were named: no link is followed
    items = [
        with_key(replace(item, root=root), interpreter.versions, request.shown)
        for line in lines
        for item in _items(*line, request, interpreter)
    ]
    unique: dict[str, Item] = {}
    for item in items:
        unique.setdefault(item.key, item)
    return Expanded(list(unique.values()), interpreter)


def _name_to_check(spec: TargetSpec) -> str:
    """The model that the interpreter's library must have; "" for folders, hub ids and targets of other kinds."""
    name = spec.name or ""
    known = spec.mode == "library" and (spec.library != "hf" or _CLASS_NAME.fullmatch(name))
    return f"{spec.library}:{name}" if known and not Path(name).exists() else ""


def _lines(text: str, request: Request) -> Iterator[tuple[SweepEntry, str, TargetSpec | None]]:
    """The targets of each entry; without a spec it is a pattern of models."""
    plain = SweepEntry(text, arguments=request.arguments, inputs=request.inputs)
    for entry in read_toml(Path(text)) if text.endswith(".toml") else [plain]:
        entry = replace(entry, configurations=request.configurations or entry.configurations or {"default": {}})
        try:
            named = named_targets(entry.target, entry.arguments, entry.inputs)
        except UsageError as error:
            raise UsageError(f"{entry.where}: {error}" if entry.where else str(error)) from error
        yield from ((entry, target, spec) for target, spec in named)


def _items(
    entry: SweepEntry, target: str, spec: TargetSpec | None, request: Request, interpreter: Interpreter
) -> Iterator[Item]:
    listed = interpreter.listed.get(target, [])
    if spec is None and not listed:
        package = library_facts(prefix_of(target)).package
        raise UsageError(f"{target}: no architecture of the installed {package} is called like that")
    for each in [spec] if spec else [_spec(name, (), ()) for name in listed]:
        for name, settings in entry.configurations.items():
            made, options = applied(request.asked(each), request.options, {**entry.settings, **settings})
            if made.path is not None:
                made = replace(made, path=os.path.abspath(made.path))  # noqa: PTH100  no link is followed
            # The name of its entry, that of the configuration, or both.
            named = [word for word in (entry.name, name) if word and word != "default"]
            yield Item(made.spec, made, options, "+".join(named) or "default")
