"""Names for lines of code that are the same on every machine, and which lines are a model's own."""

from __future__ import annotations

import re
from pathlib import Path

from dynalyze.files.paths import below, package_path
from dynalyze.report import GraphBreak, Location

_MODEL_OF_TRANSFORMERS = re.compile(r"transformers/models/[^/]+/(?:modeling|modular)_[^/]+\.py$")


def portable(file: str, root: str = "") -> str:
    """A file from its package on; one of the user's from the folder that the sweep was started in, or by its name."""
    if (library := package_path(file)) is not None:
        return library
    path = Path(file)
    package = path.parent
    while (package / "__init__.py").is_file() and package != package.parent:
        package = package.parent
    if package != path.parent:
        return path.relative_to(package).as_posix()
    if path.is_absolute():
        return below(file, root) or path.name
    return file.replace("\\", "/")


def caller(found: GraphBreak, root: str, own_file: str | None) -> str:
    """The model's own line that led to a break, "path:line"; empty where the break is on a line of its own."""
    if _is_own(found.location, own_file):
        return ""
    line = next((line for line in reversed(found.stack) if _is_own(line, own_file)), None)
    if line is None or (line.file, line.line) == (found.location.file, found.location.line):
        return ""
    return f"{portable(line.file, root)}:{line.line}"


def _is_own(line: Location, own_file: str | None) -> bool:
    """Without a file of the user's the model is one of transformers, or of code that came with a checkpoint."""
    if own_file is not None and Path(line.file).name == Path(own_file).name:
        return True
    if _MODEL_OF_TRANSFORMERS.search(line.file.replace("\\", "/")):
        return True
    return own_file is None and "transformers_modules" in line.file
