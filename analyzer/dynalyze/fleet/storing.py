"""The files of an item: its report and its page, written whole, then named in its row."""

from __future__ import annotations

from pathlib import Path

from dynalyze.fleet.items import Item
from dynalyze.fleet.work import Finished

REPORTS = "reports"


def store(folder: Path, item: Item, finished: Finished) -> None:
    """Write report and page below the sweep's folder, and their names, relative to it, into the row."""
    for suffix, content in ((".json", finished.report), (".html", finished.page)):
        if content is None:
            continue
        name = f"{REPORTS}/{item.file_stem}{suffix}"
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        partial = path.with_name(f".{path.name}.part")
        partial.write_bytes(content)
        partial.replace(path)
        if suffix == ".json":
            finished.row.report = name
        else:
            finished.row.page = name
