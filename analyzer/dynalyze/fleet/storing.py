"""The files of an item: its report and its page, written whole, then named in its row."""

from __future__ import annotations

import re
from pathlib import Path

from dynalyze.fleet.items import Item
from dynalyze.fleet.work import Finished
from dynalyze.privacy.redaction import redaction

REPORTS = "reports"


def store(folder: Path, item: Item, finished: Finished, *, hide_names: bool = False) -> None:
    """Write report and page below the sweep's folder, and their names, relative to it, into the row."""
    stem = re.sub(r"[^\w.=+-]+", "_", redaction()(item.file_stem)) if hide_names else item.file_stem
    for suffix, content in ((".json", finished.report), (".html", finished.page)):
        if content is None:
            continue
        name = f"{REPORTS}/{stem}{suffix}"
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        partial = path.with_name(f".{path.name}.part")
        partial.write_bytes(content)
        partial.replace(path)
        if suffix == ".json":
            finished.row.report = name
        else:
            finished.row.page = name
