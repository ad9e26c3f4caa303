"""The parent's end of the supervisor: start it, order it about, read its reports."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dynalyze.launch import supervisor
from dynalyze.text.errors import DynalyzeError, UsageError

SUPERVISOR = Path(supervisor.__file__).resolve()
# The supervisor gives up on unkillable processes after 5 seconds; more than this means that it hangs itself.
_LAST_WAIT_SECONDS = 20.0


class Supervised:
    """A target that runs below a supervisor. Leaving the `with` block ends what is left of it.

    Once `exited` is true, `exit_status` is the target's own as subprocess has it, and `killed` says whether we ended
    it. Once `done` is true, the supervisor and all its descendants but `survivors` many have ended. With `clears` the
    target gets time to clean up where this process dies.
    """

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int, stdin: int | None = None,
        folder: str | None = None, *, clears: bool = False,
    ) -> None:  # fmt: skip
        self.exited = False
        self.exit_status: int | None = None
        self.killed = False
        self.done = False
        self.survivors = 0
        self._argv = list(argv)
        self._pid: int | None = None
        self._unread = b""
        control, self._control = os.pipe()
        self._report, report = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SUPERVISOR), str(control), str(report), str(os.getpid()), *argv],
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(control, report, *_inherited_descriptors()),
                start_new_session=True,
                cwd=folder,
            )
        except BaseException as error:
            os.close(self._control)
            os.close(self._report)
            if isinstance(error, OSError):
                raise UsageError(f"{argv[0]} cannot be started: {error.strerror}") from error
            raise
        finally:
            os.close(control)
            os.close(report)
        self._poller = select.poll()
        self._poller.register(self._report, select.POLLIN)
        if clears:
            self._send(supervisor.CLEAR)

    def __enter__(self) -> Supervised:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._control)  # the supervisor takes it as the order to kill
        try:
            self._process.wait(_LAST_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            os.close(self._report)

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """Send this signal to the target's main process, or SIGINT where it has no handler for it."""
        self._send(supervisor.ORDERS[number])

    def kill(self) -> None:
        """End the target and everything below it at once."""
        self._send(supervisor.KILL)

    def wait(self, seconds: float) -> None:
        """Wait for news, but no longer than this."""
        if self.done or not self._poller.poll(max(0.0, seconds) * 1000):
            return
        data = os.read(self._report, 4096)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            word, *numbers = line.decode().split()
            self._handle(word, [int(number) for number in numbers])
        if not data and not self.done:
            self._supervisor_died()

    def _send(self, order: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended meanwhile
            os.write(self._control, order)

    def _handle(self, word: str, numbers: list[int]) -> None:
        if word == "started":
            self._pid = numbers[0]
        elif word == "failed":
            raise UsageError(f"{self._argv[0]} cannot be started: {os.strerror(numbers[0])}")
        elif word == "exited":
            self.exited = True
            self.exit_status = os.waitstatus_to_exitcode(numbers[0])
            self.killed = bool(numbers[1]) and self.exit_status == -signal.SIGKILL
        elif word == "done":
            self.survivors = numbers[0]
            self.done = True

    def _supervisor_died(self) -> None:
        """Somebody killed it (the target, or the kernel for memory), and with it the target."""
        if self._pid is None:
            raise DynalyzeError("the supervisor of the target ended before it could start the target")
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)
        if not self.exited:
            self.exited, self.exit_status = True, -signal.SIGKILL
        self.done = True


def _inherited_descriptors() -> list[int]:
    """Descriptors that a shell opened beside the three streams: `dynalyze explain model.py -- <(zcat data)`."""
    try:
        names = os.listdir("/dev/fd")  # noqa: PTH208  a list of names, quickly
    except OSError:
        return []
    found = []
    for descriptor in [int(name) for name in names if name.isdigit() and int(name) > 2]:
        with contextlib.suppress(OSError):  # the one that listed them
            if os.get_inheritable(descriptor):
                found.append(descriptor)
    return found
