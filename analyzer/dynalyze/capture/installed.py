"""Which files are of installed packages, of torch or of Python itself, whatever environment they stand in.

An environment can be layered over another one, and a program can stand below the interpreter's own prefix: the folders
of this interpreter alone say neither what is a library nor what is the user's.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig

_PACKAGES = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
_PYTHONS = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))  # noqa: PTH118


def is_installed(file: str) -> bool:
    """Whether a file, named as code objects name it, is no part of the user's program."""
    return _PACKAGES.search(file) is not None or file.startswith(_PYTHONS) or _is_torchs(file)


def _is_torchs(file: str) -> bool:
    """Built from its sources, torch stands in no folder of packages."""
    its_own = getattr(sys.modules.get("torch"), "__file__", None)
    return its_own is not None and file.startswith(os.path.join(os.path.dirname(its_own), ""))  # noqa: PTH118, PTH120
