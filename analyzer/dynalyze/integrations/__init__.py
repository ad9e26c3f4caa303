"""dynalyze inside of other libraries: each module here is for one of them, and imports it."""

from __future__ import annotations

import os
from pathlib import Path


def checked(file: Path, suffix: str) -> Path:
    """A file that can be written at the end of a training of days; a ValueError says why it cannot."""
    if file.suffix != suffix:
        raise ValueError(f"{file}: name a file that ends in {suffix}")
    if not os.access(file.resolve().parent, os.W_OK):
        raise ValueError(f"{file}: no such directory, or not writable: {file.resolve().parent}")
    return file
