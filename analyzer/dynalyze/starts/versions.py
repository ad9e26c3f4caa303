"""Environments with versions of torch, set up by uv or pip, and the search for the first version that is worse."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from dynalyze.comparison.upgrades import Tried, Upgrade
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.interrupts import first_signal
from dynalyze.launch.question import exit_status
from dynalyze.report import Report
from dynalyze.text.errors import UsageError

Progress = Callable[[str], None]
Compared = Callable[[tuple[str, str]], tuple[Upgrade, list[Report]]]
_VERSION = re.compile(r"\d+(?:\.\d+){1,2}(?:[a-z0-9.+]*)\Z")
_FINISHED = "dynalyze-finished"
# What the child of a run needs beside torch, where the calls of a program are recorded.
_ALSO = ("numpy", "setuptools")


class NotInstalled(Exception):
    """The message is one line for people."""


def first_worse(
    listed: str, packages: Sequence[str], base: str, compared: Compared, say: Progress
) -> tuple[Upgrade, list[Report]]:
    """Hold the last version against the first; where it is worse, halve what lies between until the first that is
    worse is known. Returns what that one changes, or the last one where none is worse.

    Raises:
        UsageError: no list of versions, or the first or the last cannot be installed.
    """
    versions = _read(listed)
    tried = {version: Tried(version) for version in versions}
    tried[versions[0]].note = f"torch {versions[0]}: what the others are held against"

    def python(version: str) -> str:
        say(f"torch {version}: setting up its environment")
        return str(environment(base, version, packages))

    try:
        oldest, newest = python(versions[0]), python(versions[-1])
    except NotInstalled as error:
        raise UsageError(str(error)) from error
    found, reports = compared((oldest, newest))
    tried[versions[-1]].worse = bool(found.regressions)
    low, high = 0, len(versions) - 1
    between = versions[1:-1] if found.regressions else []
    while between and first_signal() is None:
        version = between[len(between) // 2]
        try:
            looked, its_reports = compared((oldest, python(version)))
        except NotInstalled as error:
            say(str(error))
            tried[version].note = str(error)
            between.remove(version)
            continue
        tried[version].worse = bool(looked.regressions)
        if looked.regressions:
            high, found, reports = versions.index(version), looked, its_reports
        else:
            low = versions.index(version)
        between = [each for each in between if low < versions.index(each) < high]
    found.versions = list(tried.values())
    found.first_worse = versions[high] if found.regressions else ""
    return found, reports


def _read(listed: str) -> list[str]:
    versions = [part.strip() for part in listed.split(",")]
    for version in versions:
        if not _VERSION.match(version):
            raise UsageError(f"--versions {version!r}: give versions of torch as 2.13,2.14.1, the oldest first")
    if len(versions) < 2 or len(set(versions)) < len(versions):
        raise UsageError(f"--versions {listed}: give two or more, each once, the oldest first")
    return versions


def environment(base: str, version: str, packages: Sequence[str]) -> Path:
    """The interpreter of an environment with this torch, made where it is not there yet.

    Raises:
        NotInstalled: with the last word of uv or pip.
    """
    wanted = [f"torch=={version}", *_ALSO, *packages]
    key = hashlib.sha256("\n".join([os.path.realpath(base), *wanted]).encode()).hexdigest()[:12]
    folder = _folder() / f"torch-{version}-{key}"
    python = folder / "bin" / "python"
    if (folder / _FINISHED).exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        for command in _commands(base, folder, python, wanted):
            _run(command, version)
    except NotInstalled:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    (folder / _FINISHED).touch()
    return python


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dynalyze" / "environments"


def _commands(base: str, folder: Path, python: Path, wanted: Sequence[str]) -> list[list[str]]:
    if (uv := shutil.which("uv")) is not None:
        return [
            [uv, "venv", "--python", base, str(folder)],
            [uv, "pip", "install", "--python", str(python), *wanted],
        ]
    return [[base, "-m", "venv", str(folder)], [str(python), "-m", "pip", "install", "--no-input", *wanted]]


def _run(command: Sequence[str], version: str) -> None:
    with TemporaryFolder() as folder:
        said = folder / "said"
        status = exit_status(command, os.environ, said, lambda: first_signal() is not None)
        if status == 0:
            return
        lines = [line.strip() for line in said.read_text(encoding="utf-8", errors="replace").splitlines()]
    errors = [line for line in lines if line.lower().startswith(("error", "×"))] or [line for line in lines if line]
    raise NotInstalled(f"torch {version} cannot be installed: {errors[-1] if errors else 'nothing was said'}")
