"""Paths that mean the same on another machine: below the working directory, or from an installed package on."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath

_INSTALLED = re.compile(r".*/(?:site-packages|dist-packages)/(.+)$")
_STANDARD_LIBRARY = re.compile(r".*/lib/(python\d[^/]*/.+)$")


def working_folder() -> str:
    """The working directory; "" where it is gone."""
    try:
        return os.getcwd()  # noqa: PTH109  as the target sees it: no link is followed
    except OSError:
        return ""


def package_path(file: str) -> str | None:
    """The path of a library's file from its package on, of Python's own from `python3.x` on; None for others."""
    text = file.replace("\\", "/")
    found = _INSTALLED.fullmatch(text) or _STANDARD_LIBRARY.fullmatch(text)
    return found[1] if found else None


def library_of(file: str) -> str:
    """The installed package of a file; "" for other files."""
    found = _INSTALLED.fullmatch(file.replace("\\", "/"))
    return found[1].partition("/")[0].removesuffix(".py") if found else ""


def is_pythons(file: str) -> bool:
    """Whether it is a file of Python's own library."""
    return not library_of(file) and _STANDARD_LIBRARY.fullmatch(file.replace("\\", "/")) is not None


def below(file: str, folder: str) -> str | None:
    """The path from a folder on; None where the file is not in it, or the folder is ""."""
    path = PurePosixPath(file)
    if not folder or ".." in path.parts:
        return None
    try:
        return path.relative_to(folder).as_posix()
    except ValueError:
        return None


def portable_path(file: str, folder: str) -> str:
    """The path that a file has on every machine: from its package on, else from the folder, else its name."""
    return package_path(file) or below(file, folder) or PurePosixPath(file.replace("\\", "/")).name
