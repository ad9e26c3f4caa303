"""Runs a program with other source in some of its files, which stay as they are on disk; and the code cells of a
notebook as sources of their own, so that a line of a report is a line of its cell.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import linecache
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dynalyze.capture.hooks import Patch
from dynalyze.capture.inputs import Misuse
from dynalyze.capture.source_lines import lines_of
from dynalyze.capture.source_texts import HELD, as_bytes

_texts: dict[str, bytes] = {}
NOTEBOOK = ".ipynb"
CELL = f"{NOTEBOOK}:In["
# Magics whose cell is Python all the same; the cells of others are of another language, or for the notebook alone.
_OF_PYTHON = ("%%time", "%%timeit", "%%capture", "%%dynalyze", "%%prun")
_NO_PYTHON = re.compile(r"^([ \t]*)([%!?].*|.*\?)$", re.MULTILINE)


def put_over(changes: Mapping[str, str]) -> Callable[[], None]:
    """Let these files, by path, have these texts for whatever is imported or run from here on; returns what ends it."""
    _texts.update((os.path.realpath(path), as_bytes(text)) for path, text in changes.items())
    data, stats = (Patch(importlib.machinery.SourceFileLoader, name) for name in ("get_data", "path_stats"))

    def get_data(loader: Any, path: str) -> Any:
        return read(path) if data.active and os.path.realpath(path) in _texts else data.original(loader, path)

    def path_stats(loader: Any, path: str) -> Any:
        if stats.active and os.path.realpath(path) in _texts:
            raise OSError("this text is of no file: nothing that was compiled from one is of use")
        return stats.original(loader, path)

    undo = [data.put(get_data), stats.put(path_stats)]

    def remove() -> None:
        _texts.clear()
        for each in undo:
            each()

    return remove


def read(path: str) -> bytes:
    """The source that is to run in the place of a file: its own where nothing was put over it. Raises OSError: it
    cannot be read.
    """
    text = _texts.get(os.path.realpath(path))
    if text is None:
        text = Path(path).read_bytes()
    else:
        source = importlib.util.decode_source(text)
        linecache.cache[path] = (len(source), None, lines_of(source), path)
    HELD.hold(path, text)
    return text


def put_cells(path: str) -> list[str]:
    """Put the text of each code cell over a file of its own name, which is returned: `model.ipynb:In[3]`, with the
    number that a cell gets when all are run in order. launch/spec.py has checked the format. Raises Misuse where the
    notebook cannot be read.
    """
    try:
        document = json.loads(read(path))
        sources = ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Misuse(f"{path}: no notebook that can be read: {error}") from None
    cells = {f"{path}:In[{number}]": as_python(text) for number, text in enumerate(filter(str.strip, sources), 1)}
    put_over(cells)
    return list(cells)


def as_python(text: str) -> str:
    """A cell without what only a notebook understands, each line where it was."""
    first, _, rest = text.partition("\n")
    if first.startswith("%%"):
        text = f"\n{rest}" if first.startswith(_OF_PYTHON) else ""
    return _NO_PYTHON.sub(r"\1pass  # \2", text)
