"""Asks the interpreter, one process a question, each with a limit; and looks at folders and variables itself."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

import dynalyze
from dynalyze.doctor.checks.packages import KNOWN
from dynalyze.doctor.records import Facts, Folder, Package, Trial
from dynalyze.errors import UsageError

_START = Path(dynalyze.__file__).resolve().parent / "capture" / "start_doctor.py"
_PREFIXES = ("TORCH_COMPILE", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TORCH_LOGS", "TORCH_TRACE", "PYTORCH_", "TRITON_")
_NAMES = ("CXX", "CC", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
_MOST_FILES = 200_000
_TOO_LONG = "it took longer than"


def ask(python: str | None, timeout: float) -> Facts:
    """All facts of an interpreter; ours without one.

    Raises:
        UsageError: it cannot be started.
    """
    python = python or sys.executable
    facts = Facts(interpreter=python, variables=_variables(os.environ))
    said = _question(python, "facts", {}, timeout)
    facts = msgspec.convert({**msgspec.to_builtins(facts), **said}, Facts)
    facts.folders = [folder(name, path) for name, path in facts.caches.items()]
    if facts.torch is None or facts.torch_error or facts.silence:
        return facts
    _add_packages(facts, timeout)
    _add_trials(facts, timeout)
    return facts


def _add_packages(facts: Facts, timeout: float) -> None:
    said = _question(facts.interpreter, "packages", {"packages": KNOWN}, timeout)
    if "importing" in said:  # Else it did not come so far, and the file holds the question.
        facts.packages = msgspec.convert(said["packages"], list[Package])
        facts.importing = said["importing"]


def _add_trials(facts: Facts, timeout: float) -> None:
    """Dynamo alone first: where it compiles nothing, Inductor is not reached."""
    facts.trials = [_trial(facts.interpreter, "eager", "cpu", timeout)]
    if facts.trials[0].error:
        return
    for device in ("cpu", *(("cuda",) if facts.devices else ())):
        facts.trials.append(_trial(facts.interpreter, "inductor", device, timeout))


def _trial(python: str, backend: str, device: str, timeout: float) -> Trial:
    said = _question(python, "compile", {"backend": backend, "device": device}, timeout)
    silence = said.get("silence", "")
    return Trial(backend, device, said.get("seconds", 0.0), said.get("error", silence), _TOO_LONG in silence)


def _question(python: str, what: str, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """The answer; with `silence` where the process ended before it was whole."""
    with tempfile.TemporaryDirectory(prefix="dynalyze-") as folder_name:
        file = Path(folder_name) / "question.json"
        file.write_text(json.dumps(request), encoding="utf-8")
        # Empty caches: an old result would hide that nothing can be compiled any more.
        env = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        if what == "compile":
            env["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder_name) / "cache")
        silence = _run([python, str(_START), what, str(file)], env, timeout)
        try:
            answer = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            answer = {}
    return {**answer, "silence": silence} if silence else answer


def _run(command: list[str], env: dict[str, str], timeout: float) -> str:
    """Why it did not end well; "" where it did. All that it started ends with it."""
    try:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started: {error.strerror}") from error
    with process:
        try:
            printed, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return f"{_TOO_LONG} {timeout:.0f} s (--timeout)"
        finally:
            _end(process.pid)
    if process.returncode == 0:
        return ""
    lines = printed.strip().splitlines()
    return lines[-1] if lines else f"the process ended with status {process.returncode}"


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """An allowlist: nothing else of the environment is shown."""
    return {
        name: value for name, value in environment.items() if name.startswith(_PREFIXES) or name in _NAMES
    }  # fmt: skip


def folder(name: str, path: str) -> Folder:
    """A folder of compiled code; one that is not there yet is judged by the nearest folder above it."""
    place = Path(path)
    above = place
    while not above.exists() and above != above.parent:
        above = above.parent
    free = None
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(above).free
    writable = above.is_dir() and os.access(above, os.W_OK | os.X_OK)
    return Folder(name, path, place.is_dir(), writable, _size(place), free)


def _size(place: Path) -> int | None:
    total, files = 0, 0
    for root, _, names in os.walk(place):
        for name in names:
            files += 1
            if files > _MOST_FILES:
                return None
            try:
                total += (Path(root) / name).lstat().st_size
            except OSError:
                continue
    return total
