"""A question to an interpreter: a process that writes its answer to a file step by step, with a limit for each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dynalyze
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.supervised import Supervised

Answer = dict[str, Any]
Tell = Callable[[str], None]

TOO_LONG = "it took longer than"
_START = Path(dynalyze.__file__).resolve().parent / "capture" / "start_doctor.py"
_PAUSE = 0.05


class Asker:
    """Asks one interpreter. `tell` hears of each step; `stop` ends what is under way, from any thread."""

    def __init__(self, python: str, timeout: float, tell: Tell) -> None:
        self.python = python
        self.timeout = timeout
        self.stop = threading.Event()
        self._tell = tell

    def ask(self, what: str, request: Mapping[str, Any]) -> Answer:
        """The answer as far as it came; with `silence`, the reason, where the process ended before it was whole.

        Raises:
            UsageError: the interpreter cannot be started.
        """
        with TemporaryFolder() as folder:
            file, printed = folder / "question.json", folder / "printed.txt"
            file.write_text(json.dumps({**request, "cache": str(folder / "cache")}), encoding="utf-8")
            # One process: a pool of compilers costs more than it gives for one small function.
            env = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
            silence = self._run([self.python, str(_START), what, str(file)], env, file, printed)
            answer = _read(file)
        return {**answer, "silence": silence} if silence else answer

    def _run(self, command: list[str], env: dict[str, str], file: Path, printed: Path) -> str:
        """Why it did not end well; "" where it did. All that it started ends with it."""
        with printed.open("wb") as output:
            sink = output.fileno()
            with Supervised(command, env, None, sink, sink, stdin=subprocess.DEVNULL) as process:
                status = self._watched(process, file)
        if status is None:
            return f"{TOO_LONG} {self.timeout:g} s (--timeout)"
        return "" if status == 0 else _last_line(printed) or _ending(status)

    def _watched(self, process: Supervised, file: Path) -> int | None:
        """Its exit status; None where one step took too long."""
        step, deadline = "", time.monotonic() + self.timeout
        while not process.exited:
            if time.monotonic() > deadline or self.stop.is_set():
                return None
            if (now := str(_read(file).get("doing", ""))) != step:
                step, deadline = now, time.monotonic() + self.timeout
                if step:
                    self._tell(step)
            process.wait(_PAUSE)
        return process.exit_status


def _read(file: Path) -> Answer:
    """Nothing where the process came not so far; then the file still holds the question."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and "cache" not in found else {}


def _last_line(printed: Path) -> str:
    lines = printed.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _ending(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"the process was ended by {signal.Signals(-status).name}"
    return f"the process ended with status {status}"
