"""The folders of compiled code: whether they can be written and run from, how much is in them, how much is free."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from dynalyze.doctor.records import Folder

_MOST_FILES = 200_000


def folder(name: str, path: str) -> Folder:
    """A folder of compiled code; one that is not there yet is judged by the nearest folder above it."""
    place = Path(path)
    above = place
    while not above.exists() and above != above.parent:
        above = above.parent
    free, runs = None, True
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(above).free
        runs = not os.statvfs(above).f_flag & getattr(os, "ST_NOEXEC", 0)
    writable = above.is_dir() and os.access(above, os.W_OK | os.X_OK)
    return Folder(name, path, place.is_dir(), writable, _size(place), free, runs)


def _size(place: Path) -> int | None:
    total, files = 0, 0
    for root, _, names in os.walk(place):
        for name in names:
            files += 1
            if files > _MOST_FILES:
                return None
            try:
                total += (Path(root) / name).lstat().st_size
            except OSError:
                continue
    return total
