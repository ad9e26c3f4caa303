"""The code cells of a notebook as sources of their own, so that a line of a report is a line of its cell.

A notebook is JSON; that this one is whole and of format 4 was checked before, see launch/spec.py.
"""

from __future__ import annotations

import json
import re

from dynalyze.capture import overlay
from dynalyze.capture.inputs import Misuse

SUFFIX = ".ipynb"
CELL = f"{SUFFIX}:In["
# Magics whose cell is Python all the same; the cells of others are of another language, or for the notebook alone.
_OF_PYTHON = ("%%time", "%%timeit", "%%capture", "%%dynalyze", "%%prun")
_NO_PYTHON = re.compile(r"^([ \t]*)([%!?].*|.*\?)$", re.MULTILINE)


def put_cells(path: str) -> list[str]:
    """Put the text of each code cell over a file of its own name, which is returned: `model.ipynb:In[3]`, with the
    number that a cell gets when all are run in order. Raises Misuse where the notebook cannot be read.
    """
    try:
        document = json.loads(overlay.read(path))
        sources = ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Misuse(f"{path}: no notebook that can be read: {error}") from None
    cells = {f"{path}:In[{number}]": as_python(text) for number, text in enumerate(filter(str.strip, sources), 1)}
    overlay.put_over(cells)
    return list(cells)


def as_python(text: str) -> str:
    """A cell without what only a notebook understands, each line where it was."""
    first, _, rest = text.partition("\n")
    if first.startswith("%%"):
        text = f"\n{rest}" if first.startswith(_OF_PYTHON) else ""
    return _NO_PYTHON.sub(r"\1pass  # \2", text)
