"""Changes of files as unified diffs, and written to the files themselves."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from dynalyze.files.paths import package_path
from dynalyze.files.read_write import write_whole_file
from dynalyze.fix.lines import unified
from dynalyze.text.errors import UsageError


def changed(originals: Mapping[str, str], texts: Mapping[str, str]) -> list[str]:
    """The files that have another text."""
    return [file for file, text in texts.items() if text != originals[file]]


def is_library(file: str) -> bool:
    """Whether a file is of an installed package or of Python itself, which are never written to."""
    return package_path(file) is not None or file.startswith(sysconfig.get_path("stdlib"))


def patch_of(originals: Mapping[str, str], texts: Mapping[str, str], root: Path) -> str:
    """All changes as one diff for `patch -p1`, in `root`; files of libraries are named from their package folder."""
    return "".join(unified(originals[file], texts[file], name_of(file, root)) for file in changed(originals, texts))


def name_of(file: str, root: Path) -> str:
    """How a diff names a file."""
    if (below := package_path(file)) is not None:
        return below
    try:
        return str(Path(file).resolve().relative_to(root.resolve()))
    except ValueError:
        return file.lstrip("/")


def check_writable(originals: Mapping[str, str], texts: Mapping[str, str]) -> None:
    """Refuse (UsageError) to write a file of a library, or one that has changed since it was read."""
    for file in changed(originals, texts):
        if is_library(file):
            raise UsageError(f"--write: {file} is of an installed package; --patch FILE gives the change")
        try:
            now = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--write: {file} cannot be read any more: {error}") from error
        if now != originals[file]:
            raise UsageError(f"--write: {file} has changed meanwhile; run it again")


def write(originals: Mapping[str, str], texts: Mapping[str, str]) -> list[str]:
    """Write the new texts, whole or not at all; where git does not keep a file, the old text goes to FILE.orig.

    Returns the files. Raises UsageError where one cannot be written.
    """
    check_writable(originals, texts)
    written = changed(originals, texts)
    for file in written:
        path = Path(file)
        try:
            if not _in_git(path):
                write_whole_file(path.with_name(f"{path.name}.orig"), originals[file])
            write_whole_file(path, texts[file])
        except OSError as error:
            raise UsageError(f"--write: {file}: {error.strerror}") from error
    return written


def _in_git(path: Path) -> bool:
    """Whether the text as it is now is committed, so that git gives it back."""
    command = ["git", "-C", str(path.parent), "diff", "--quiet", "HEAD", "--", path.name]
    listed = ["git", "-C", str(path.parent), "ls-files", "--error-unmatch", "--", path.name]
    try:
        return all(subprocess.run(each, capture_output=True, check=False).returncode == 0 for each in (listed, command))
    except OSError:
        return False
