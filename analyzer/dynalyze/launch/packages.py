"""Where packages lie that we bring along for an interpreter that lacks them."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def folder_of(package: str) -> str:
    """The folder of a package of ours; empty where we have none."""
    spec = importlib.util.find_spec(package)
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)
