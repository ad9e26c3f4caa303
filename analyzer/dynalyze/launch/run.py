"""Runs processes in the target's interpreter to their end: a target, a command, and a probe that answers in a file,
step by step.

A target gets our standard input, the given environment, and a session without a terminal of its own: Ctrl-C reaches
us alone, and we decide what the target gets to see of it.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dynalyze
from dynalyze.facts.build import Ended, EndReason
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.interrupts import Interrupts, first_signal, how_it_ended
from dynalyze.launch.streams import Pump, Streams
from dynalyze.launch.supervised import Supervised

START = Path(dynalyze.__file__).resolve().parent / "capture" / "start.py"
_WATCH_SECONDS, _LOOK_SECONDS = 0.2, 0.05
_REMOTE_CACHES = ("FX_GRAPH", "AUTOGRAD", "AUTOTUNE", "BUNDLED_AUTOTUNE")
# Off where they are on: set where nobody has set it, one of them gives every graph another key than the run's.
NOTHING_REMOTE = {name: "0" for each in _REMOTE_CACHES if (name := f"TORCHINDUCTOR_{each}_REMOTE_CACHE") in os.environ}
# Whatever could make a cold start warm, beside the cache folders, which are new.
NOTHING_REMEMBERED = {
    **NOTHING_REMOTE,
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO": "0",
}


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    timeout: float,
    streams: Streams,
    watch: Callable[[], bool] = lambda: False,
    grace: float = 10.0,
    folder: str | None = None,
) -> Ended:
    """How a command ended, once everything that it started has ended too. `env` is its whole environment, `folder` its
    working directory, by default ours.

    `watch` is called about five times a second in this thread; True kills the target. After Ctrl-C or another signal
    to us it has `grace` seconds to end by itself; a second signal, or the end of `timeout` seconds, kills at once.
    Raises UsageError where the command cannot be started.
    """
    started = time.monotonic()
    seconds, kill_at, obeyed = 0.0, started + timeout, 0
    reason: EndReason = "ended"
    try:
        with (
            Pump(streams) as pump,
            Interrupts(killing=True) as interrupts,
            Supervised(argv, env, pump.stdout, pump.stderr, folder=folder) as target,
        ):
            while not target.done:
                was_there = not target.exited
                target.wait(min(_WATCH_SECONDS, kill_at - time.monotonic()))
                if was_there:  # Its end counts; what it started may live on for a while.
                    seconds = time.monotonic() - started
                if not target.exited and watch() and reason == "ended":
                    reason, kill_at = "stopped_early", started
                if interrupts.count > obeyed:
                    obeyed, reason = interrupts.count, "interrupted"
                    if obeyed == 1:
                        target.interrupt(first_signal() or signal.SIGINT)
                        kill_at = min(kill_at, time.monotonic() + grace)
                    else:
                        kill_at = started
                if time.monotonic() >= kill_at:
                    kill_at = math.inf
                    reason = "timed_out" if reason == "ended" else reason
                    target.kill()
            exit_status = None if target.killed else target.exit_status
    finally:
        streams.close()
    if reason == "timed_out" and exit_status is not None:
        reason = "ended"  # By itself, while the order to kill was on its way.
    return Ended(reason, exit_status, seconds, how_it_ended() if reason == "interrupted" else "")


def cache_variables(caches: Path) -> dict[str, str]:
    """The environment variables that put all compile caches below a folder; CUDA's driver has one of its own."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "CUDA_CACHE_PATH": str(caches / "cuda"),
    }


def probe(
    python: str,
    what: str,
    request: Mapping[str, Any],
    seconds: float,
    progress: Callable[[str], None] = lambda step: None,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, Any], int | None, str]:
    """The answer of `capture/start.py` as far as it came, the exit status, None where a step took more than `seconds`,
    and the last line that was printed. `progress` shows each step as it begins. Raises UsageError where the
    interpreter cannot be started.
    """
    with TemporaryFolder() as folder:
        file, printed = folder / "probe.json", folder / "printed"
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
    """The exit status of a command without input; None where it was `overdue`, which is called some times a second."""
    with output.open("wb") as file:
        sink = file.fileno()
        with Supervised(command, environment, sink, sink, stdin=subprocess.DEVNULL) as process:
            while not process.exited:
                if overdue():
                    return None
                process.wait(_LOOK_SECONDS)
            return process.exit_status


def _read(file: Path) -> dict[str, Any]:
    """The answer; nothing as long as the file still holds the request."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and "cache" not in found else {}
