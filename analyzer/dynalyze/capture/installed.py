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
    return _PACKAGES.search(file) is not None or file.startswith(_PYTHONS) or is_torchs(file)


def file_of(module: object) -> str:
    """The file of a module; "" where there is none. A module that imports itself once it is asked for something is not
    asked: packages that load their parts lazily raise ImportError where one cannot be imported.
    """
    held = getattr(module, "__dict__", None)
    file = held.get("__file__") if isinstance(held, dict) else None
    return file if isinstance(file, str) else ""


def is_torchs(file: str) -> bool:
    """Whether torch has it: built from its sources, it stands in no folder of packages."""
    folder = torch_folder()
    return folder != "" and file.startswith(folder)


def torch_folder() -> str:
    """The folder of torch as code objects name it, with a separator at its end; "" while torch is not imported."""
    file = file_of(sys.modules.get("torch"))
    return os.path.join(os.path.dirname(file), "") if file else ""  # noqa: PTH118, PTH120
