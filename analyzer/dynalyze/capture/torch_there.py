"""Whether the interpreter that runs the target has a torch that dynalyze works with; one line where it has not."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType

LEAST = (2, 8)

_VERSION = re.compile(r"(\d+)\.(\d+)")
_ANOTHER = "name an interpreter that has it, e.g. --python .venv/bin/python"


def missing() -> str:
    """Why there is no torch to import; "" where there is one, or was."""
    if "torch" in sys.modules:
        return ""
    try:
        found = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        found = None
    return "" if found is not None else f"torch is missing in {sys.executable}; {_ANOTHER}"


def too_old(torch: ModuleType) -> str:
    """Why an imported torch is not enough; "" where it is."""
    version = getattr(torch, "__version__", None)
    found = _VERSION.match(str(version))
    if version is None or found is None:
        where = getattr(torch, "__file__", None) or ", ".join(getattr(torch, "__path__", []))
        return f"what {sys.executable} imports as torch is not PyTorch: {where}; rename it, or {_ANOTHER}"
    if (int(found[1]), int(found[2])) >= LEAST:
        return ""
    least = ".".join(map(str, LEAST))
    return f"{sys.executable} has torch {version}, and dynalyze needs {least} or later; {_ANOTHER}"


def refusal(error: BaseException) -> str:
    """Why nothing can be done here, where that is what `error` came of: torch is missing, broken or too old."""
    if (torch := sys.modules.get("torch")) is not None:
        return too_old(torch)
    for each in _chain(error):
        if isinstance(each, ModuleNotFoundError) and each.name == "torch":
            return missing()
        if _is_of_import(each):
            said = " ".join((str(each).strip().splitlines() or [""])[0].split())
            return (
                f"torch cannot be imported in {sys.executable}: {type(each).__name__}: {said}; "
                f"mend it (dynalyze doctor says more), or {_ANOTHER}"
            )
    return ""


def against_import() -> str:
    """Import torch; why that cannot be done, or is not enough; "" where it is."""
    try:
        import torch
    except Exception as error:
        if reason := refusal(error):
            return reason
        raise
    return too_old(torch)


def _is_of_import(error: BaseException) -> bool:
    """Whether it was raised while torch's own file was being imported."""
    return isinstance(error, Exception) and any(
        frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "torch"
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
