"""Changes of files as unified diffs."""

from __future__ import annotations

import contextlib
import csv
import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from dynalyze.files.paths import package_path
from dynalyze.fix.lines import unified
from dynalyze.fix.source_files import CannotWrite, source_of


def changed(originals: Mapping[str, str], texts: Mapping[str, str]) -> list[str]:
    """The files that have another text."""
    return [file for file, text in texts.items() if text != originals[file]]


def is_library(file: str) -> bool:
    """Whether a file is of an installed package or of Python itself, which are never written to."""
    return package_path(file) is not None or file.startswith(sysconfig.get_path("stdlib"))


def record_of(target: Path) -> Path | None:
    """The RECORD of an installed distribution that lists a file, as below a folder of `pip install --target`."""
    for folder in target.parents:
        for record in folder.glob("*.dist-info/RECORD"):
            with contextlib.suppress(OSError, csv.Error), record.open(encoding="utf-8", errors="replace") as lines:
                rows = (row[0] for row in csv.reader(lines) if row and row[0].endswith(target.name))
                if any(Path(os.path.normpath(folder / row)) == target for row in rows):
                    return record
    return None


def patch_of(originals: Mapping[str, str], texts: Mapping[str, str], root: Path) -> str:
    """All changes as one diff for `patch -p1`, in `root`; files of libraries are named from their package folder."""
    return "".join(
        patch_of_file(originals, file, originals[file], texts[file], root) for file in changed(originals, texts)
    )


def patch_of_file(originals: Mapping[str, str], file: str, before: str, after: str, root: Path) -> str:
    """One change of a file, between two texts of it, with the line ends that the file has."""
    source, name = source_of(originals, file), name_of(file, root)
    try:
        return unified(source.exact(before), source.exact(after), name)
    except CannotWrite:
        return unified(before, after, name)


def patch_bytes(originals: Mapping[str, str], texts: Mapping[str, str], root: Path) -> bytes:
    """All changes as one diff whose lines have the bytes of their files."""
    made = b""
    for file in changed(originals, texts):
        old, new, hunks = patch_of_file(originals, file, originals[file], texts[file], root).split("\n", 2)
        head = f"{old}\n{new}\n".encode(errors="surrogateescape")
        made += head + source_of(originals, file).encoded(hunks)
    return made


def name_of(file: str, root: Path) -> str:
    """How a diff names a file."""
    if (below := package_path(file)) is not None:
        return below
    try:
        return str(Path(file).resolve().relative_to(root.resolve()))
    except ValueError:
        return file.lstrip("/")
