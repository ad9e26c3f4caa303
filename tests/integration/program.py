"""Runs the real program `dynalyze` as a user does, and keeps all that came of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm_starts

from dynalyze.cli.group import run
from limits import WALL_SECONDS

TRACEBACK = "Traceback (most recent call last)"
# Commands that start processes of their own to measure, or to make calls again.
MEASURING = ("bench", "audit", "plan", "fix", "verify", "upgrade")


@dataclass(frozen=True)
class Outcome:
    """How a run of dynalyze ended, and what it printed."""

    status: int
    stdout: str
    stderr: str


def dynalyze(
    *arguments: str | Path,
    cwd: Path,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    python: tuple[str, ...] = (),
    bench: bool = False,
    seconds: float = WALL_SECONDS,
    real: bool = False,
) -> Outcome:
    """Run `python -m dynalyze ARGUMENTS` in `cwd`; `env` is added to ours, `python` are options of Python's own.

    `explain` measures speed with `bench` alone: that takes a score of processes, and more `seconds`. Without `real` it
    may be forked, and its target too, see warm_starts.
    """
    given = [str(argument) for argument in arguments] if bench else unmeasured(arguments)
    if not (python or real) and warm_starts.can_fork(env or {}):
        measures = bench or (bool(given) and given[0] in MEASURING)
        return Outcome(*warm_starts.run_dynalyze(given, cwd, env or {}, stdin, seconds, measures=measures))
    command = [sys.executable, *python, "-m", "dynalyze", *given]
    ended = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


def in_process(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Outcome:
    """As `dynalyze`, in this process: for the many mistakes that are told before a target would start."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as here, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        here.chdir(cwd)
        for name, value in (env or {}).items():
            here.setenv(name, value)
        here.setattr(tempfile, "tempdir", None)  # Found anew, in this environment.
        status = run(unmeasured(arguments))
    return Outcome(status, out.getvalue(), err.getvalue())


def plain_python(
    script: str, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, check: bool = True
) -> Outcome:
    """`python SCRIPT ARGUMENTS` in `cwd`, where nothing of dynalyze runs; forked off a process that has torch.

    With `check` it has to end with 0. TORCH_LOGS is heard.
    """
    ended = Outcome(*warm_starts.run_script(cwd / script, arguments, cwd, env or {}, WALL_SECONDS))
    assert not check or ended.status == 0, ended.stderr[-3000:]
    return ended


def unmeasured(arguments: Sequence[str | Path]) -> list[str]:
    """The arguments, with --no-bench where they are for `explain`."""
    given = [str(argument) for argument in arguments]
    if given[:1] == ["explain"] and "--no-bench" not in given:
        given.insert(1, "--no-bench")
    return given


def explain(*arguments: str | Path, cwd: Path, **options: Any) -> tuple[Outcome, dict[str, Any]]:
    """`dynalyze explain ARGUMENTS --json FILE`, and the report. FILE is in a folder that `cwd` holds."""
    file = cwd / "explained.json"
    file.unlink(missing_ok=True)
    before, after = _around_separator([str(argument) for argument in arguments])
    ended = dynalyze("explain", *before, "--json", file, *after, cwd=cwd, **options)
    if not file.exists():
        pytest.fail(f"exit status {ended.status} and no report\n{ended.stderr[-3000:]}")
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return ended, report


def interrupted(*arguments: str | Path, cwd: Path, when: Path, times: int = 1) -> Outcome:
    """Run dynalyze and send SIGINT to it alone once the file `when` exists."""
    given = unmeasured(arguments)
    command, variables = warm_starts.start_dynalyze(given, {}, measures=given[0] in MEASURING)
    with subprocess.Popen(
        command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **variables}, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            wait_for(when, process)
            for _ in range(times):
                process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=WALL_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
    return Outcome(process.returncode, stdout, stderr)


def working_in(folder: Path) -> list[str]:
    """The command lines of processes whose current folder is this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            inside = (process / "cwd").resolve() == folder.resolve()
            command = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if inside and command:
            found.append(command)
    return found


def wait_for(file: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the target says by a file that it has come so far."""
    import time

    deadline = time.monotonic() + WALL_SECONDS
    while not file.exists():
        assert process.poll() is None, f"ended before it wrote {file.name}"
        assert time.monotonic() < deadline, f"never wrote {file.name}"
        time.sleep(0.05)


def _around_separator(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at:]
