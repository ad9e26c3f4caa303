"""Writes what the compiler made of a program to a folder: one folder a compile, files named as vLLM's users know them.

Names come from numbers that are checked, no link is followed, and nothing is replaced that we did not write: a marker
in the folder lists what is ours.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dynalyze.events.log import RunLog
from dynalyze.facts.graphs import CompileTexts, texts_of
from dynalyze.privacy.masking import Masking
from dynalyze.text.errors import UsageError

MARKER = ".dynalyze-artifacts"

_COMPILE_ID = re.compile(r"(?:!(?P<autograd>\d{1,9})/)?(?P<frame>\d{1,9})/(?P<version>\d{1,9})")
_OURS = re.compile(r"(?P<folder>(?:process\d+_)?(?:reset\d+_)?(?:autograd\d+_)?\d+_\d+)/[a-z_]+\d*\.(?:py|json)")


def check_folder(folder: Path) -> None:
    """Raise UsageError for a folder that cannot be written, or that holds files of others."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--artifacts {folder}: that is no directory")
    if not folder.exists() and not folder.absolute().parent.is_dir():
        raise UsageError(f"--artifacts {folder}: no such directory: {folder.absolute().parent}")
    if not os.access(folder if folder.exists() else folder.absolute().parent, os.W_OK):
        raise UsageError(f"--artifacts {folder}: not writable")
    if folder.exists() and any(folder.iterdir()) and not _is_marked(folder):
        raise UsageError(f"--artifacts {folder}: it holds files that dynalyze did not write; name an empty directory")


def write_artifacts(run: RunLog, folder: Path) -> list[str]:
    """Write every text of a run over those of an earlier call; returns notes on what was left out. Raises UsageError
    where the folder cannot be used.
    """
    check_folder(folder)
    try:
        folder.mkdir(exist_ok=True)
        _remove_ours(folder)
        return _write_all(run, folder)
    except OSError as error:
        raise UsageError(f"--artifacts {folder}: {error.strerror}") from error


def _write_all(run: RunLog, folder: Path) -> list[str]:
    written: list[str] = []
    notes: list[str] = []
    try:
        for texts in texts_of(run):
            name = _folder_name(texts)
            if name is None:
                notes.append("A compile with an unusual id has no artifacts.")
                continue
            for file, text in texts.named():
                code = run.read_text(text.reference)
                if not code:
                    continue
                code = Masking([code]).masked(code, code=True)
                if _write_new(folder / name, file, code if code.endswith("\n") else f"{code}\n"):
                    written.append(f"{name}/{file}")
                else:
                    notes.append(f"{folder / name / file} existed before and is not ours: it was left alone.")
    finally:
        marker = folder / MARKER
        marker.unlink(missing_ok=True)
        with marker.open("x", encoding="utf-8") as out:
            out.write("".join(f"{name}\n" for name in written))
    return notes


def _folder_name(texts: CompileTexts) -> str | None:
    """`0_1` for compile 0/1; with process and number of resets where these are not 0."""
    found = _COMPILE_ID.fullmatch(texts.compile_id)
    if found is None:
        return None
    parts = [f"process{texts.process}"] if texts.process else []
    parts += [f"reset{texts.epoch}"] if texts.epoch else []
    parts += [f"autograd{found['autograd']}"] if found["autograd"] else []
    return "_".join([*parts, found["frame"], found["version"]])


def _write_new(folder: Path, file: str, code: str) -> bool:
    """Whether the file is new and was written."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return False
    folder.mkdir(exist_ok=True)
    try:
        with (folder / file).open("x", encoding="utf-8", errors="backslashreplace") as out:
            out.write(code)
    except FileExistsError:
        return False
    return True


def _is_marked(folder: Path) -> bool:
    marker = folder / MARKER
    return marker.is_file() and not marker.is_symlink()


def _remove_ours(folder: Path) -> None:
    """Remove what the marker lists, and folders left empty."""
    if not _is_marked(folder):
        return
    folders = set()
    for name in (folder / MARKER).read_text(encoding="utf-8", errors="replace").splitlines():
        found = _OURS.fullmatch(name)
        if found is None or (folder / found["folder"]).is_symlink():
            continue
        if (folder / name).is_file() or (folder / name).is_symlink():
            (folder / name).unlink()
        folders.add(folder / found["folder"])
    for each in folders:
        if each.is_dir() and not any(each.iterdir()):
            each.rmdir()
