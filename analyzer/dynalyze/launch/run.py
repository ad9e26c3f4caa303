"""Runs a target to its end, and says how it ended.

The target gets our standard input, the given environment, and a session without a terminal of its own: Ctrl-C reaches
us alone, and we decide what the target gets to see of it.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dynalyze.facts.build import Ended, EndReason
from dynalyze.launch.interrupts import Interrupts, first_signal, how_it_ended
from dynalyze.launch.streams import Pump, Streams
from dynalyze.launch.supervised import Supervised

_WATCH_SECONDS = 0.2
NOTHING_REMOTE = {
    "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_BUNDLED_AUTOTUNE_REMOTE_CACHE": "0",
}
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
    """Starts the command and returns when it and everything it started have ended. `env` is the whole environment,
    `folder` its working directory, ours where it is None.

    `watch` is called about five times a second in this thread; True kills the target. One that was interrupted by
    Ctrl-C or another signal to us may end by itself for `grace` seconds and is killed then; a second signal, or the end
    of `timeout` seconds, kills at once. Raises UsageError where the command cannot be started.
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
    """Where the compilers keep what they made; CUDA's driver has a cache of its own."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "CUDA_CACHE_PATH": str(caches / "cuda"),
    }
