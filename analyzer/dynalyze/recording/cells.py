"""The cells of a notebook by the names that its reader knows: `In[3]`, not a file that is nowhere."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Mapping
from typing import Any

from dynalyze.report import Report
from dynalyze.report.held import Holds, changed


def cell_names() -> dict[str, str]:
    """The file names that IPython gave to the cells of this process, each with the cell's own name."""
    shell = _shell()
    if shell is None:
        return {}
    # IPython keeps the lines of every cell there.
    named = {file: _name(shell, file) for file in list(linecache.cache)}
    return {file: name for file, name in named.items() if name}


def with_cell_names(report: Report, names: Mapping[str, str]) -> Report:
    """The report with these names in every text, guards and messages included."""
    if not names:
        return report
    files = re.compile("|".join(re.escape(file) for file in sorted(names, key=len, reverse=True)))

    def renamed(_: Holds, text: str) -> str:
        return files.sub(lambda found: names[found[0]], text)

    return changed(report, renamed)


def _shell() -> Any:
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython() if get_ipython is not None else None


def _name(shell: Any, file: str) -> str:
    """The name of a cell as IPython's own tracebacks have it: "In[3]"; "" for any other file."""
    try:
        told = shell.compile.format_code_name(file)
    except AttributeError:  # An IPython before 8.
        return ""
    return str(told[1]) if told else ""
