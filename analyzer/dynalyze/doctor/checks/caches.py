"""The folders in which compiled code is kept."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.doctor.records import Facts, Folder, Line
from dynalyze.text.amounts import size

GROUP = "Caches"

_LITTLE = 1 << 30
_VARIABLES = {"Inductor": "TORCHINDUCTOR_CACHE_DIR", "Triton": "TRITON_CACHE_DIR"}


def check(facts: Facts) -> Iterator[Line]:
    """Whether they can be written and run from, and whether there is room."""
    for folder in facts.folders:
        yield _line(folder, _VARIABLES.get(folder.name, "TORCHINDUCTOR_CACHE_DIR"))


def _line(folder: Folder, variable: str) -> Line:
    name, mend = f"{folder.name} cache", f"export {variable}=/a/folder/with/room"
    if not folder.writable:
        # Inductor raises where it cannot make its folder: nothing compiles then.
        return Line(name, "problem", f"{folder.path} cannot be written", mend, fatal=folder.name == "Inductor")
    if not folder.runs:
        found = f"{folder.path} is on a file system that runs no code (noexec): compiled kernels do not load"
        return Line(name, "problem", found, mend, fatal=folder.name == "Inductor")
    held = "not there yet" if not folder.exists else "very many files" if folder.size is None else size(folder.size)
    if folder.free is not None and folder.free < _LITTLE:
        return Line(name, "warning", f"{folder.path}: {held}, and only {size(folder.free)} free", mend)
    free = f", {size(folder.free)} free" if folder.free is not None else ""
    return Line(name, "ok", f"{folder.path}: {held}{free}")
