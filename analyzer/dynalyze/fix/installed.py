"""Which installed distribution a file belongs to."""

from __future__ import annotations

import contextlib
import csv
import os
from pathlib import Path


def record_of(target: Path) -> Path | None:
    """The RECORD of an installed distribution that lists a file, as below a folder of `pip install --target`."""
    for folder in target.parents:
        for record in folder.glob("*.dist-info/RECORD"):
            with contextlib.suppress(OSError, csv.Error), record.open(encoding="utf-8", errors="replace") as lines:
                rows = (row[0] for row in csv.reader(lines) if row and row[0].endswith(target.name))
                if any(Path(os.path.normpath(folder / row)) == target for row in rows):
                    return record
    return None
