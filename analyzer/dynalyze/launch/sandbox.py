"""A sandbox for running a program again: it writes where it likes, and nothing of it is there afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from dynalyze.files.paths import working_folder
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.report import OutsideEffect
from dynalyze.text.errors import UsageError

Isolation = Literal["open", "refuse", "sandbox"]
"""Where a program runs once more: as ever, with whatever leaves a mark outside refused, or in a sandbox."""

Wanted = Literal["auto", "on", "off"]
_INIT = str(Path(__file__).resolve().with_name("sandbox_init.py"))
_LEFT = "left.json"
_LONGEST_START = 30.0


@dataclass(frozen=True)
class Again:
    """How a program is run after its first run; `reason` says why it is not."""

    isolation: Isolation = "open"
    reason: str = ""

    def announced(self, what: str) -> str:
        """`what`, which says how often the program will run, with where it will; or why it will not."""
        if self.reason:
            return self.reason
        where = {"sandbox": " in a sandbox", "refuse": " with outside effects refused", "open": ""}
        return f"the program will run{where[self.isolation]}: {what}"


def how_to_run_again(effects: Sequence[OutsideEffect], wanted: Wanted, *, allow_effects: bool) -> Again:
    """How a program with these outside effects may be run again. Raises UsageError where a sandbox is required and
    there is none.
    """
    if wanted == "on" and (why := why_no_sandbox()):
        raise UsageError(f"--sandbox on: no sandbox here: {why}")
    if allow_effects and wanted != "on":
        return Again()
    if wanted != "off" and not why_no_sandbox():
        return Again("sandbox")
    if effects:
        return Again(reason=f"{effects[0]}, so the program is not run again without `--allow-effects`")
    return Again("refuse")


@dataclass(frozen=True)
class Sandbox:
    """What differs from outside: writes to folders in `keep` are real, and `put` has the contents of files by the paths
    that they replace ("" removes one).
    """

    keep: Sequence[str] = ()
    put: Mapping[str, str] = field(default_factory=dict)

    def command(self, argv: Sequence[str], run: Path, folder: str | None = None) -> list[str]:
        """The command line that runs `argv` in a sandbox, in the working directory `folder`, by default ours. Writes to
        `run`, a folder of ours, are real.
        """
        scratch, spec = run / "sandbox", run / "sandbox.json"
        scratch.mkdir(mode=0o700)
        wanted = {
            "argv": list(argv), "folder": folder or working_folder(), "scratch": str(scratch.resolve()),
            "keep": [str(Path(each).resolve()) for each in (str(run), *self.keep)], "put": dict(self.put),
            "left": str(run.resolve() / _LEFT),
        }  # fmt: skip
        spec.write_text(json.dumps(wanted), encoding="utf-8")
        return [sys.executable, "-I", "-S", _INIT, str(spec)]


def left_behind(run: Path) -> dict[str, str]:
    """What a command in the sandbox of this folder changed, by path (sandbox_init); nothing where it was killed."""
    try:
        found: dict[str, str] = json.loads((run / _LEFT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


@cache
def why_no_sandbox() -> str:
    """Why this machine has none; "" where it has one."""
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has none"
    with TemporaryFolder() as run:
        command = Sandbox().command(["true"], run)
        try:
            tried = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LONGEST_START
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return "" if tried.returncode == 0 else tried.stderr.strip() or "it could not be set up"
