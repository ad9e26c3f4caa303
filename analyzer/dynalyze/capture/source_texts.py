"""The program's source as Python read it: an editor saves, a checkout moves on, a file goes while the program runs."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tokenize
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dynalyze.capture.events import Event, SourceSeen, TracedSeen
from dynalyze.capture.hooks import Patch
from dynalyze.capture.installed import is_installed

Stamp = tuple[int, int]
# Of a file that is not what was imported; no file has it.
_CHANGED = (-1, -1)
_OURS = str(Path(__file__).parents[1])
_LARGEST_FILE, _MOST_BYTES = 2 << 20, 64 << 20


class SourceTexts:
    """Holds the text of each file of the program from when it was imported, and of all others their time and size."""

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}
        self._stamps: dict[str, Stamp] = {}
        self._bytes = 0

    def watch(self) -> Callable[[], None]:
        """Hold what is imported from here on; returns what ends it."""
        patch = Patch(importlib.machinery.SourceFileLoader, "path_stats")

        def path_stats(loader: Any, path: str) -> Any:
            if patch.active and (stamp := _stamp(file := _absolute(path))) is not None:
                self._stamps[file] = stamp
                if not _is_library(file) and stamp[1] <= _LARGEST_FILE:
                    with contextlib.suppress(OSError):
                        self.hold(file, Path(file).read_bytes())
            return patch.original(loader, path)

        return patch.put(path_stats)

    def hold(self, file: str, source: bytes) -> None:
        """Keep what was read from a file, and is about to be executed."""
        file = _absolute(file)
        if len(source) <= _LARGEST_FILE and self._bytes + len(source) <= _MOST_BYTES:
            self._bytes += len(source) - len(self._texts.get(file, b""))
            self._texts[file] = source

    def seen(self, file: str, write: Callable[[str], str]) -> SourceSeen:
        """What is known of a file by its absolute path: its text, given to `write`, and the hash of its bytes; time of
        change (ns) and size (bytes) when it was imported, or now where that was before.
        """
        source, stamp = self._texts.get(file), self._stamps.get(file)
        if not stamp:  # It was imported before we watched; where functions of its module are not in it, it has changed.
            ours = not _is_library(file)
            stamp = _CHANGED if ours and any(_differs(file, code) for code in _codes_of(file)) else _stamp(file)
        if source is not None:
            with contextlib.suppress(SyntaxError, UnicodeDecodeError):
                text = write(importlib.util.decode_source(source))
                return SourceSeen(file=file, stamp=stamp, text=text, sha256=hashlib.sha256(source).hexdigest())
        return SourceSeen(file=file, stamp=stamp)


def as_bytes(source: str) -> bytes:
    """The bytes from which Python reads this text: a line at its top may name their encoding."""
    with contextlib.suppress(SyntaxError, UnicodeEncodeError):
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source.encode()).readline)
        return source.encode(encoding)
    return source.encode()


def _codes_of(file: str) -> list[types.CodeType]:
    """The code of functions and methods at the top of the module that was imported from a file."""
    # Plain looks at dictionaries: lazy modules and proxies run code of their own where an attribute is asked for.
    spaces = (getattr(module, "__dict__", {}) for module in list(sys.modules.values()))
    space = next((each for each in spaces if each.get("__file__") == file), {})
    classes = [value for value in space.values() if issubclass(type(value), type)]
    own = [value for value in classes if value.__module__ == space.get("__name__")]
    named = [*space.items(), *(pair for each in own for pair in vars(each).items())]
    # Under another name stands what was made of a function: Dynamo puts its resume functions here.
    codes = [v.__code__ for name, v in named if type(v) is types.FunctionType and v.__code__.co_name == name]
    return [code for code in codes if _absolute(code.co_filename) == file]


def _differs(file: str, code: types.CodeType) -> bool:
    """Whether a file has no function where this one began, or one that names what this one does not."""
    written = _written(file, _stamp(file))
    if written is None:
        return False
    names = written.get((code.co_name, code.co_firstlineno))
    return names is None or not names <= {*code.co_names, *code.co_varnames}  # Rewritten asserts name more.


@functools.lru_cache(maxsize=32)
def _written(file: str, stamp: Stamp | None) -> dict[tuple[str, int], set[str]] | None:
    """The names in each function of a file, by its name and first line; None for one that Python does not read.

    `stamp` is that of the file now: another one is another file.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python has told of them at the import.
            waiting = [compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: dict[tuple[str, int], set[str]] = {}
    while waiting:
        code = waiting.pop()
        found.setdefault((code.co_name, code.co_firstlineno), set()).update(code.co_names)
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return found


def _stamp(file: str) -> Stamp | None:
    """Time of change (ns) and size (bytes) of a file; None where there is none."""
    try:
        status = os.stat(file)  # noqa: PTH116 - at every import.
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def files_of(event: Event) -> Iterator[str]:
    """The source files that an event names."""
    frames = [getattr(event, "code", None)]
    for stack in ("stack", "above", "inside"):
        frames += getattr(event, stack, ())
    files = [getattr(event, "file", ""), *(frame.file for frame in frames if frame is not None)]
    if isinstance(event, TracedSeen):
        files += [file for file, _, _ in event.functions]
    yield from filter(os.path.isabs, files)


def _absolute(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - keeps links, as events do.


HELD = SourceTexts()
"""Those of this process."""


def _is_library(file: str) -> bool:
    return is_installed(file) or file.startswith(_OURS)
