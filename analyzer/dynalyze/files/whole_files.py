"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Of a name, in that of the file beside it: that is longer by some characters, and a name has at most 255 bytes.
_SHOWN = 40


def write_whole_file(path: Path, text: str) -> None:
    """Write a file whole or not at all; a link stays a link, and the file's mode stays.

    Raises:
        OSError: it cannot be written; what was there before is untouched.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():  # A pipe or a device has no whole to keep.
        target.write_text(text, encoding="utf-8", errors="backslashreplace")
    else:
        _replace(target, text)


def _replace(target: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:_SHOWN]}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        Path(name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
