"""Files that a command reads, which have an end, and documents whose numbers are in range; files that it writes, whole
or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_type_hints

import msgspec

from dynalyze.text.errors import UsageError
from dynalyze.text.json_text import read_json

_Document = TypeVar("_Document")

LARGEST = 64 << 20
"""Bytes of a file that is read whole: a report of ten thousand ranks has 38 MB."""

MOST_VALUES = 2_000_000
"""Values of a document, which decide what memory it takes: that report has 1.5 million, and takes 0.6 GiB."""

# An end of a pipe that somebody else holds open for this process: a shell's `<(...)`, or standard input.
_OPEN_ALREADY = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/(?:self|\d+)/fd/\d+")
_KINDS = (
    (stat.S_ISDIR, "a directory, not a file"),
    (stat.S_ISFIFO, "a pipe, which may never end; write it to a file, or name it as /dev/stdin or <(...)"),
    (stat.S_ISSOCK, "a socket, not a file"),
    (stat.S_ISCHR, "a device, not a file"),
    (stat.S_ISBLK, "a device, not a file"),
)
# Sums and products of two numbers up to these are finite; no measurement comes near.
_MOST = 1e100
_MOST_WHOLE = 2**63
# A number in JSON that may be larger: only then the whole document is searched.
_LARGE = re.compile(rb"(?<=[\s:,\[])-?(?:\d{18,}|\d+(?:\.\d+)?[eE]\+?\d\d)")

# What came through such a pipe: it comes but once.
_piped: dict[str, bytes] = {}


def open_input(path: Path) -> BinaryIO:
    """Open a regular file for reading, without waiting. Raises OSError, which says why, for anything else."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "no name that a file can have", str(path))
    _check_file(path, path.stat().st_mode)
    file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    try:
        _check_file(path, os.fstat(file.fileno()).st_mode)  # It may have been another one until now.
    except OSError:
        file.close()
        raise
    return file


def read_input(path: Path) -> bytes:
    """The content of a file, or of a pipe that is open already. Raises OSError also above `LARGEST`."""
    if str(path) in _piped:
        return _piped[str(path)]
    is_pipe = is_open_pipe(path)
    with path.open("rb") if is_pipe else open_input(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST >> 20} MiB; nothing of dynalyze's is", str(path))
    if is_pipe:
        _piped[str(path)] = content
    return content


def is_open_pipe(path: Path) -> bool:
    """Whether this is a pipe that a shell opened for us, `<(...)` or standard input, and which therefore ends."""
    try:
        return _OPEN_ALREADY.fullmatch(str(path)) is not None and stat.S_ISFIFO(path.stat().st_mode)
    except OSError:
        return False


def _check_file(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        words = next((words for is_kind, words in _KINDS if is_kind(mode)), "not a file")
        raise OSError(errno.EINVAL, words, str(path))


def read_document(data: bytes, kind: type[_Document]) -> _Document:
    """A `kind` from JSON that anybody may have written. Raises msgspec.DecodeError, with the place, where it is no
    JSON, no `kind`, or has a number that no run gives.
    """
    if data.count(b",") > MOST_VALUES:
        raise msgspec.DecodeError(f"more than {MOST_VALUES:,} values; no report of dynalyze has so many")
    document = read_json(data, kind)
    if _LARGE.search(data):
        for place in _beyond(document, "$"):
            raise msgspec.ValidationError(f"Number out of range - at `{place}`")
    return document


def _beyond(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, float | int):
        if abs(value) > (_MOST if isinstance(value, float) else _MOST_WHOLE):
            yield place
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _beyond(each, f"{place}[...]")
    elif isinstance(value, msgspec.Struct):
        for name in _computed(type(value)):
            yield from _beyond(getattr(value, name), f"{place}.{name}")


@cache
def _computed(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a record that may hold numbers which are computed with; settings are only shown."""
    return tuple(name for name, hint in get_type_hints(struct).items() if hint not in (str, bool, dict[str, Any]))


# Characters of the file's name in that of the temporary one beside it: a name has at most 255 bytes.
_SHOWN = 40


def write_whole_file(path: Path, text: str | bytes) -> None:
    """Write a file whole or not at all: after an OSError the old one is untouched. A link stays a link, and the mode
    stays.
    """
    if isinstance(text, str):
        text = text.replace("\n", os.linesep).encode(errors="backslashreplace")
    target = path.resolve()
    if target.exists() and not target.is_file():  # A pipe or a device has no whole to keep.
        target.write_bytes(text)
        return
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:_SHOWN]}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_below(root: Path, path: Path, data: bytes, is_ours: Callable[[bytes], bool]) -> None:
    """Write `path`, which has no links in it, whole or not at all, below `root` and nowhere else, whoever puts links in
    its way meanwhile. Raises UsageError where a folder on the way is missing or a link, and where the file is there and
    not ours.
    """
    folder, new, mode = os.open(root, os.O_DIRECTORY), f".dynalyze-{secrets.token_hex(8)}", 0o666

    def inside(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666, dir_fd=folder)

    try:
        for part in path.relative_to(root).parts[:-1]:
            above, folder = folder, inside(part, os.O_DIRECTORY)
            os.close(above)
        with contextlib.suppress(FileNotFoundError), open(path.name, "rb", opener=inside) as there:
            mode = os.fstat(there.fileno()).st_mode & 0o777
            if not is_ours(there.read(LARGEST)):
                raise UsageError(f"{path} is there, and dynalyze did not write it: name another file")
        with open(new, "xb", opener=inside) as file:
            file.write(data)
            if mode != 0o666:
                os.fchmod(file.fileno(), mode)
        os.replace(new, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        os.close(folder)
