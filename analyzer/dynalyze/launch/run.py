"""Runs a target to its end, and says how it ended.

The target gets our standard input, the given environment and directory, and a session without a terminal of
its own: Ctrl-C reaches us alone, and we decide what the target gets to see of it.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dynalyze.launch.interrupts import Interrupts, first_signal, how_it_ended
from dynalyze.launch.streams import Pump, Streams
from dynalyze.launch.supervised import Supervised

Reason = Literal["ended", "timed_out", "interrupted", "stopped_early"]

_WATCH_SECONDS = 0.2
# Whatever could make a cold start warm, beside the cache folders, which are new.
NOTHING_REMEMBERED = {
    "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_BUNDLED_AUTOTUNE_REMOTE_CACHE": "0",
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO": "0",
}


@dataclass(frozen=True)
class Command:
    """What to start. `env` is the whole environment; without `cwd` it is started where we are."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path | None = None


@dataclass(frozen=True)
class Ending:
    """How a target ended.

    `exit_status` is its own, as subprocess has it (minus a signal's number); None where we killed it.
    `seconds` is the life of its main process. `asked_to_stop` is true where the stop file was made, at the
    soft deadline too. `survivors` counts processes that could not be killed (they run as another user, or
    hang in the kernel). `said` is how a signal to us interrupted it.
    """

    reason: Reason
    exit_status: int | None
    seconds: float
    asked_to_stop: bool = False
    survivors: int = 0
    said: str = ""


def run(
    command: Command,
    *,
    timeout: float,
    streams: Streams,
    stop_file: Path,
    soft_deadline: float | None = None,
    watch: Callable[[], bool] | None = None,
    grace: float = 10.0,
) -> Ending:
    """Starts the command and returns when it and everything it started have ended.

    `watch` is called about five times a second in this thread; True asks the target to stop by making
    `stop_file`. So does the soft deadline. A target that was asked by `watch`, or was interrupted by
    Ctrl-C or another signal to us, may end by itself for `grace` seconds and is killed then; a second
    signal, or the end of `timeout` seconds, kills at once. Raises UsageError where the command cannot be started.
    """
    limits = _Limits(timeout, soft_deadline, grace)
    try:
        with (
            Pump(streams) as pump,
            Interrupts(killing=True) as interrupts,
            Supervised(command.argv, command.env, command.cwd, pump.stdout, pump.stderr) as target,
        ):
            return _Run(target, interrupts, limits, stop_file, watch or (lambda: False)).to_the_end()
    finally:
        streams.close()


class _Limits:
    """The moments at which something has to be done, on the monotonic clock."""

    def __init__(self, timeout: float, soft_deadline: float | None, grace: float) -> None:
        self.started = time.monotonic()
        self.kill_at = self.started + timeout
        self.ask_at = math.inf if soft_deadline is None else self.started + soft_deadline
        self._grace = grace

    def start_grace(self) -> None:
        self.kill_at = min(self.kill_at, time.monotonic() + self._grace)

    def seconds_left(self) -> float:
        return min(self.kill_at, self.ask_at) - time.monotonic()


class _Run:
    def __init__(
        self,
        target: Supervised,
        interrupts: Interrupts,
        limits: _Limits,
        stop_file: Path,
        watch: Callable[[], bool],
    ) -> None:
        self._target = target
        self._interrupts = interrupts
        self._obeyed = 0  # interrupts that we have acted on
        self._limits = limits
        self._stop_file = stop_file
        self._watch = watch
        self._reason: Reason = "ended"
        self._asked = False

    def to_the_end(self) -> Ending:
        target = self._target
        while not (target.exited or target.done):
            self._step()
            if self._watch() and self._reason == "ended" and not target.exited:
                self._stop_early()
        seconds = time.monotonic() - self._limits.started
        self._limits.ask_at = math.inf
        while not target.done:
            self._step()
        exit_status = None if target.killed else target.exit_status
        return Ending(
            reason=self._verdict(exit_status),
            exit_status=exit_status,
            seconds=seconds,
            asked_to_stop=self._asked,
            survivors=target.survivors,
            said=how_it_ended() if self._reason == "interrupted" else "",
        )

    def _step(self) -> None:
        self._target.wait(min(_WATCH_SECONDS, self._limits.seconds_left()))
        if self._interrupts.count > self._obeyed:
            self._interrupt()
        now = time.monotonic()
        if now >= self._limits.kill_at:
            self._kill("timed_out")
        if now >= self._limits.ask_at:
            self._ask_to_stop()

    def _interrupt(self) -> None:
        self._obeyed = self._interrupts.count
        self._reason = "interrupted"
        if self._obeyed == 1:
            self._target.interrupt(first_signal() or signal.SIGINT)
            self._limits.start_grace()
        else:
            self._kill("interrupted")

    def _stop_early(self) -> None:
        self._reason = "stopped_early"
        self._ask_to_stop()
        self._limits.start_grace()

    def _ask_to_stop(self) -> None:
        self._limits.ask_at = math.inf
        self._asked = True
        self._stop_file.touch()

    def _kill(self, why: Reason) -> None:
        self._limits.kill_at = math.inf
        if self._reason == "ended":
            self._reason = why
        self._target.kill()

    def _verdict(self, exit_status: int | None) -> Reason:
        """A target that ended by itself while the order to kill was on its way was in time."""
        in_time = self._reason == "timed_out" and exit_status is not None
        return "ended" if in_time else self._reason


def cache_variables(caches: Path) -> dict[str, str]:
    """Where the compilers keep what they made; CUDA's driver has a cache of its own."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "CUDA_CACHE_PATH": str(caches / "cuda"),
    }
