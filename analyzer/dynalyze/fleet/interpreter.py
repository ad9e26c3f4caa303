"""Asks the interpreter that will run the items: its versions, its architectures, whether it knows the options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

import dynalyze
from dynalyze.capture.settings import CompileOptions
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.supervised import Supervised
from dynalyze.text.errors import UsageError

_START = Path(dynalyze.__file__).resolve().parent / "capture" / "start_fleet.py"
_SECONDS = 300.0
_LOOK_SECONDS = 0.2


class Interpreter(msgspec.Struct):
    """What is known of it. `listed` has the names behind each pattern."""

    python: str
    torch: str | None
    transformers: str | None
    listed: dict[str, list[str]] = {}
    mistakes: list[str] = []

    @property
    def versions(self) -> dict[str, Any]:
        """The part of it that decides results."""
        return {"python": self.python, "torch": self.torch, "transformers": self.transformers}


def inquire(
    python: str | None, options: Sequence[CompileOptions], patterns: Sequence[str], names: Sequence[str]
) -> Interpreter:
    """Ask once, for everything.

    Raises:
        UsageError: it does not start, lacks torch or transformers, or does not know an option or a name.
    """
    request = {"compile": [asdict(each) for each in options], "patterns": list(patterns), "names": list(names)}
    python = python or sys.executable
    with TemporaryFolder() as folder:
        file = folder / "inquiry.json"
        file.write_text(json.dumps(request), encoding="utf-8")
        said = _run([python, str(_START), "inquire", str(file)], folder / "printed")
        try:
            answer = msgspec.json.decode(file.read_bytes(), type=Interpreter)
        except msgspec.DecodeError:
            raise UsageError(f"{python} cannot be used: {said}") from None
    if answer.mistakes:
        raise UsageError(answer.mistakes[0])
    return answer


def _run(command: list[str], printed: Path) -> str:
    """The last line that it printed."""
    until = time.monotonic() + _SECONDS
    with printed.open("wb") as output:
        sink = output.fileno()
        with Supervised(command, os.environ, None, sink, sink, stdin=subprocess.DEVNULL) as process:
            while not process.exited:
                process.wait(_LOOK_SECONDS)
                if time.monotonic() > until:
                    raise UsageError(f"{command[0]} did not import torch within {_SECONDS:.0f} s")
    lines = printed.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else f"it ended with status {process.exit_status}"
