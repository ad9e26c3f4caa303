"""From the words of the command line to the targets of a sweep: names, globs, folders."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass, replace
from pathlib import Path

from dynalyze.launch.spec import TargetSpec, read_target
from dynalyze.text.errors import UsageError

_HF = "hf:"
_ALL = "hf:all"
_WILD = re.compile(r"[*?[]")
_CLASS_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Wanted:
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


def wanted(text: str, arguments: tuple[str, ...] = (), inputs: tuple[str, ...] = ()) -> list[Wanted]:
    """What one word of the command line stands for, in order.

    Raises:
        UsageError: it stands for nothing; the message says what to do.
    """
    if text.startswith(_HF):
        pattern = text.removeprefix(_HF)
        if text == _ALL or (_WILD.search(pattern) and not Path(pattern).exists()):
            return [Wanted(text, pattern=pattern)]
        return [Wanted(text, spec=_spec(text, (), ()))]
    path = Path(text)
    if path.is_dir():
        found = sorted(file for file in path.glob("*.py") if file.name not in ("__init__.py", "__main__.py"))
        if not found:
            raise UsageError(f"{text}: a folder without Python files; name a folder that holds some, or a glob")
        return [_of_file(str(file), arguments, inputs) for file in found]
    if _WILD.search(text) and not path.exists():
        return _of_glob(text, arguments, inputs)
    return [Wanted(text, spec=_spec(text, arguments, inputs))]


def of_pattern(each: Wanted, names: list[str]) -> list[TargetSpec]:
    """The targets behind a pattern, once the interpreter has listed the names."""
    if not names:
        raise UsageError(f"{each.text}: no architecture of the installed transformers is called like that")
    return [_spec(_HF + name, (), ()) for name in names]


def _of_glob(text: str, arguments: tuple[str, ...], inputs: tuple[str, ...]) -> list[Wanted]:
    """A glob of files, folders, or both; `models/*.py:Net` names the same object in each file."""
    files, colon, name = text.rpartition(":")
    if not colon or Path(name).suffix or "/" in name:
        files, colon, name = text, "", ""
    found: list[Wanted] = []
    for match in sorted(glob.glob(files, recursive=True)):  # noqa: PTH207  the pattern may be absolute
        path = Path(match)
        if path.is_dir() and not name:
            found += [_of_file(str(file), arguments, inputs) for file in sorted(path.glob("*.py"))]
        elif path.suffix == ".py":
            found.append(_of_file(f"{match}{colon}{name}", arguments, inputs))
    if not found:
        raise UsageError(f"{text}: no Python file is called like that")
    return found


def _of_file(text: str, arguments: tuple[str, ...], inputs: tuple[str, ...]) -> Wanted:
    return Wanted(text, spec=_spec(text, arguments, inputs))


def _spec(text: str, arguments: tuple[str, ...], inputs: tuple[str, ...]) -> TargetSpec:
    """`--input` is for objects and arguments are for programs: a sweep may name both."""
    plain = read_target(text, None, ())
    if plain.mode == "object" and inputs:
        plain = read_target(text, None, (), inputs)
    if plain.mode in ("script", "object") and arguments:
        plain = replace(plain, arguments=arguments)
    return plain
