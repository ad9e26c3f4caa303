"""What the nodes of a cluster get from here: dynalyze itself, the sweep's folder, and torch's switches."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import dynalyze

_PACKAGE = Path(dynalyze.__file__).resolve().parent
# The wheel carries the templates inside the package; a checkout keeps them in reports/.
_CHECKOUT_TEMPLATES = _PACKAGE.parents[1] / "reports" / "templates"
_SWITCHES = ("TORCH", "PYTORCH_", "TRANSFORMERS_", "HF_HUB_OFFLINE")


def runtime_env(stage: Path, folder: Path | None) -> dict[str, Any]:
    """Ray's description of it. `stage` is an empty folder that lives until Ray has connected.

    `folder` is that of the user's files; None ships none.
    """
    shipped: dict[str, Any] = {"py_modules": [str(_staged(stage))], "env_vars": _switches()}
    if folder is not None:
        shipped["working_dir"] = str(folder)
    return shipped


def _staged(stage: Path) -> Path:
    """A copy of the package as a wheel has it."""
    package = stage / "dynalyze"
    shutil.copytree(_PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    if not (package / "templates").is_dir():
        shutil.copytree(_CHECKOUT_TEMPLATES, package / "templates")
    return package


def _switches() -> dict[str, str]:
    """What of our environment decides how torch compiles. Paths are of this machine, and stay."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_SWITCHES) and not os.path.isabs(value) and "TOKEN" not in name  # noqa: PTH117  text
    }
