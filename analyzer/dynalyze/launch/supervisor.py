"""The process between dynalyze and the target: whatever the target starts ends with it.

Run as a script with the standard library only (`python -I -S supervisor.py CONTROL REPORT PARENT
COMMAND...`), so that neither a notebook nor a test process that uses dynalyze has to adopt and reap
strangers. On Linux it is the subreaper of everything below it: a process that changes its session or loses
its parent stays its descendant and is killed at the end. Elsewhere only the target's own process group is
killed; what left that group survives.

CONTROL is a pipe to read: an order of ORDERS sends its signal to the target if that has a handler for it, and SIGINT
otherwise, which a Python program can end on in good order. KILL ends everything, and so does the end of the pipe, which
comes when dynalyze dies. After CLEAR the target gets SIGTERM before that, twice, to clear away what it made. REPORT is
a pipe to write, one message a line:

    started PID
    failed ERRNO          the command could not be started; nothing follows
    exited STATUS KILLED  the target's wait status; KILLED is 1 where everything was being killed by then
    done SURVIVORS        how many processes could not be killed; then the pipe ends
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

# It starts with every run, so it imports little: typing, pathlib and subprocess would double its start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_LETTERS = {"SIGINT": b"i", "SIGTERM": b"t", "SIGHUP": b"h", "SIGQUIT": b"q"}
ORDERS = {getattr(signal, name): letter for name, letter in _LETTERS.items() if hasattr(signal, name)}
KILL, CLEAR = b"k", b"c"
_ENDING = tuple(number for number in ORDERS if number != signal.SIGINT)

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# What outlives the target may end by itself for this long (worker pools notice that their pipe was closed).
_GRACE_SECONDS = 0.5
# A process in an uninterruptible system call, or one that changed its user, does not go away: stop trying.
_KILL_SECONDS = 5.0
_KILL_ROUND_SECONDS = 0.05
# To write what it has, and to clear away.
_CLEARING_SECONDS = (1.0, 5.0)


def main(arguments: list[str]) -> None:
    control, report, parent = (int(argument) for argument in arguments[:3])
    prctl = load_prctl()
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return  # it died before it could tell us
    for descriptor in (control, report):
        os.set_inheritable(descriptor, False)
    adopts = prctl is not None and prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0
    events = Events(control)
    target, failure = start(arguments[3:], prctl)
    if failure:
        send(report, f"failed {failure}")
        return
    send(report, f"started {target}")
    Supervisor(target, events, report, adopts=adopts).supervise()


def load_prctl() -> Callable[[int, int], int] | None:
    """Linux's prctl with two arguments; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        function = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):  # a Python without ctypes
        return None
    unused = ctypes.c_ulong(0)
    return lambda option, value: int(function(option, ctypes.c_ulong(value), unused, unused, unused))


def send(report: int, message: str) -> None:
    try:
        os.write(report, message.encode() + b"\n")
    except OSError:  # dynalyze is gone: there is nobody to tell, and the rest still has to be done
        return


class Events:
    """Waits for the end of a child, an order of dynalyze, or dynalyze's end."""

    def __init__(self, control: int) -> None:
        self._control = control
        self._signals, wake = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(wake, False)
        for number in (signal.SIGCHLD, *_ENDING):
            if signal.getsignal(number) is not signal.SIG_IGN:  # The target of a nohup inherits that.
                signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._poller = select.poll()
        self._poller.register(self._signals, select.POLLIN)
        self._poller.register(control, select.POLLIN)

    def wait(self, seconds: float | None = None) -> set[bytes]:
        """The orders that came; none where a child ended or the time is up."""
        orders: set[bytes] = set()
        timeout = None if seconds is None else max(0.0, seconds) * 1000
        for descriptor, _ in self._poller.poll(timeout):
            data = os.read(descriptor, 4096)
            if descriptor == self._control:
                orders |= {bytes([byte]) for byte in data} or {KILL}
                if not data:
                    self._poller.unregister(self._control)
            elif set(data) & set(_ENDING):
                orders.add(KILL)
        return orders


def start(command: list[str], prctl: Callable[[int, int], int] | None) -> tuple[int, int]:
    """The pid of the target, in a process group of its own, and the errno where it did not start, else 0."""
    supervisor = os.getpid()
    problem, tell = os.pipe()
    child = os.fork()
    if child == 0:
        become(command, supervisor, tell, prctl)
    os.close(tell)
    number = os.read(problem, 16)  # empty when the exec succeeds: that closes the pipe
    os.close(problem)
    if number:
        os.waitpid(child, 0)
    return child, int(number or 0)


def become(command: list[str], supervisor: int, tell: int, prctl: Callable[[int, int], int] | None) -> NoReturn:
    try:
        os.setpgid(0, 0)
        # What Python changed for itself, and SIGINT, which a shell makes "command &" ignore.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == supervisor:
            os.execvp(command[0], command)
    except OSError as error:
        os.write(tell, str(error.errno or errno.EIO).encode())
    finally:
        os._exit(127)


class Supervisor:
    def __init__(self, target: int, events: Events, report: int, *, adopts: bool) -> None:
        self._target = target
        self._events = events
        self._report = report
        self._adopts = adopts
        self._ended = False
        self._killing = False
        self._clears = False
        self._childless = False

    def supervise(self) -> None:
        self._attend(until=lambda: self._ended)
        grace = time.monotonic() + _GRACE_SECONDS
        self._attend(until=lambda: not self._leftovers(), deadline=grace)
        survivors = self._kill_all()
        send(self._report, f"done {len(survivors)}")

    def _attend(self, until: Callable[[], bool], deadline: float | None = None) -> None:
        """Reap and obey until the condition holds, the time is up or the order to kill has come."""
        while not self._killing:
            self._reap()
            left = None if deadline is None else deadline - time.monotonic()
            if until() or (left is not None and left <= 0):
                return
            if left is not None and not self._adopts:
                left = min(left, _KILL_ROUND_SECONDS)  # the end of processes that are not ours is no event
            self._obey(self._events.wait(left))

    def _obey(self, orders: set[bytes]) -> None:
        self._clears = self._clears or CLEAR in orders
        if KILL in orders:
            self._killing = True
        elif not self._ended:
            for number, order in ORDERS.items():
                if order in orders:  # not reaped yet, so the pid is still its own
                    os.kill(self._target, number if handles(self._target, number) else signal.SIGINT)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                self._childless = False
                return
            if pid == self._target:
                self._ended = True
                send(self._report, f"exited {status} {int(self._killing)}")

    def _leftovers(self) -> list[int]:
        """The pids to kill; a process group is its negative number."""
        if self._adopts:
            return [] if self._childless else descendants(os.getpid())
        return [-self._target] if signalled(-self._target, 0) else []

    def _kill_all(self) -> list[int]:
        for seconds in _CLEARING_SECONDS if self._clears else ():
            signalled(self._target, 0 if self._ended else signal.SIGTERM)
            deadline = time.monotonic() + seconds
            while not self._ended and time.monotonic() < deadline:
                self._events.wait(deadline - time.monotonic())
                self._reap()
        self._killing = True
        deadline = time.monotonic() + _KILL_SECONDS
        while True:
            self._reap()
            left = self._leftovers()
            if not left or time.monotonic() > deadline:
                return left
            for pid in left:
                signalled(pid, signal.SIGKILL)
            self._events.wait(_KILL_ROUND_SECONDS)


def signalled(pid: int, number: int) -> bool:
    """Whether a process, or the group of a negative number, could be sent a signal; 0 asks whether it is there."""
    try:
        os.kill(pid, number)
    except OSError:  # it has just ended, or it runs as another user
        return False
    return True


def handles(pid: int, number: int) -> bool:
    """Whether a process has its own handler for a signal; False where that is not known."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
            caught = next(line for line in file if line.startswith(b"SigCgt:")).split()[1]
    except (OSError, StopIteration):
        return False
    return bool(int(caught, 16) >> (number - 1) & 1)


def descendants(root: int) -> list[int]:
    """The processes below `root`, parents before their children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  a list of names, quickly
        if name.isdigit():
            children.setdefault(parent_of(name), []).append(int(name))
    found = list(children.get(root, []))
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def parent_of(pid: str) -> int:
    """The pid of its parent; 0 when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            stat = file.read()
    except OSError:
        return 0
    # "4711 (any name, with ) too) S 4700 ...": the name ends at the last parenthesis.
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


if __name__ == "__main__":
    main(sys.argv[1:])
