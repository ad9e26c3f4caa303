"""The folders in which compiled code is kept."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.doctor.records import Facts, Folder, Line
from dynalyze.render.amounts import size

_LITTLE = 1 << 30
_VARIABLES = {"Inductor": "TORCHINDUCTOR_CACHE_DIR", "Triton": "TRITON_CACHE_DIR"}


def check(facts: Facts) -> Iterator[Line]:
    """Whether they can be written, and whether there is room."""
    for folder in facts.folders:
        yield _line(folder, _VARIABLES.get(folder.name, "TORCHINDUCTOR_CACHE_DIR"))


def _line(folder: Folder, variable: str) -> Line:
    check_name = f"{folder.name} cache"
    mend = f"export {variable}=/a/folder/with/room"
    if not folder.writable:
        return Line(check_name, "problem", f"{folder.path} cannot be written", mend)
    held = "not there yet" if not folder.exists else "very many files" if folder.size is None else size(folder.size)
    if folder.free is not None and folder.free < _LITTLE:
        return Line(check_name, "warning", f"{folder.path}: {held}, and only {size(folder.free)} free", mend)
    free = f", {size(folder.free)} free" if folder.free is not None else ""
    return Line(check_name, "ok", f"{folder.path}: {held}{free}")
