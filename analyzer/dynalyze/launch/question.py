"""Asks the target's interpreter: a process of its own answers, in a file, step by step."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dynalyze
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.supervised import Supervised

START = Path(dynalyze.__file__).resolve().parent / "capture" / "start.py"
_LOOK_SECONDS = 0.05


def ask(
    python: str,
    what: str,
    request: Mapping[str, Any],
    seconds: float,
    progress: Callable[[str], None] = lambda step: None,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, Any], int | None, str]:
    """Have `capture/start.py` answer, with at most so many seconds for each step; `progress` shows each as it begins.

    Returns the answer as far as it came, the status of the process, None where a step took too long, and its last line.
    Raises UsageError where the interpreter cannot be started.
    """
    with TemporaryFolder() as folder:
        file, printed = folder / "question.json", folder / "printed"
        file.write_text(json.dumps({**request, "cache": str(folder / "cache")}), encoding="utf-8")
        doing, deadline = "", time.monotonic() + seconds

        def overdue() -> bool:
            nonlocal doing, deadline
            if time.monotonic() > deadline or stopped():
                return True
            if (now := str(_read(file).get("doing", ""))) != doing:
                doing, deadline = now, time.monotonic() + seconds
                if doing:
                    progress(doing)
            return False

        # One process: a pool of compilers costs more than it gives for one small function.
        environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        status = exit_status([python, str(START), what, str(file)], environment, printed, overdue)
        lines = printed.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return _read(file), status, lines[-1].strip() if lines else ""


def exit_status(
    command: Sequence[str], environment: Mapping[str, str], output: Path, overdue: Callable[[], bool]
) -> int | None:
    """Run a command that reads nothing; None where it was overdue first, which is asked some times a second."""
    with output.open("wb") as file:
        sink = file.fileno()
        with Supervised(command, environment, sink, sink, stdin=subprocess.DEVNULL) as process:
            while not process.exited:
                if overdue():
                    return None
                process.wait(_LOOK_SECONDS)
            return process.exit_status


def _read(file: Path) -> dict[str, Any]:
    """Nothing where the process came not so far; then the file still holds the question."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and "cache" not in found else {}
