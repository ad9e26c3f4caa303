"""Temporary folders: all are made here, private to this user, and those of killed runs are removed.

A folder holds a file that names its owner, locked while the owner lives. The first folder that a process makes removes
those of this user whose owner is gone. A folder without that file, with a lock on it, of a process that lives, of
another user or another machine is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dynalyze.text.errors import UsageError

try:
    import fcntl
except ImportError:  # Windows, where a program may still record by itself: nothing is cleared there.
    fcntl = None  # type: ignore[assignment]

OWNER = ".dynalyze-owner"
_NAME = re.compile(r"dynalyze-(?:[a-z]+-)?[a-z0-9_]{8}")
# What ran may still write for a moment when its folder goes.
_REMOVALS, _REMOVAL_SECONDS = 20, 0.2

FOR_SOCKETS = 56
"""Of the usual place, where our own sockets lie in a folder: macOS has the shortest limit, 104."""


class TemporaryFolder:
    """A folder that exists until `remove`, or to the end of a `with` block; `kind` is part of its name.

    It is in /tmp where the path of the usual place has more than `longest` bytes: that of a socket has a limit of some
    hundred. Raises UsageError where it cannot be made.
    """

    def __init__(self, kind: str = "", *, longest: int | None = None) -> None:
        try:
            base = tempfile.gettempdir()
        except FileNotFoundError:
            raise UsageError("there is no folder for temporary files: set TMPDIR to one that can be written") from None
        if longest is not None and len(os.fsencode(base)) > longest:
            base = "/tmp"
        _clear_once(base)
        self._pid = os.getpid()
        self.path, self._lock = _new_folder(base, f"dynalyze-{kind}-" if kind else "dynalyze-")
        _folders.append(self)

    def remove(self) -> None:
        """Remove it with all that is in it, but not in a forked process."""
        if os.getpid() != self._pid or self not in _folders:
            return
        for _ in range(_REMOVALS):
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.path.exists():
                break
            time.sleep(_REMOVAL_SECONDS)
        _folders.remove(self)
        # A program in this process may have closed our descriptor, and have its number for a file of its own.
        device, inode, descriptor = self._lock
        with contextlib.suppress(OSError):
            status = os.fstat(descriptor)
            if (status.st_dev, status.st_ino) == (device, inode):
                os.close(descriptor)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


_folders: list[TemporaryFolder] = []
_cleared: set[str] = set()


def remove_all() -> None:
    """Remove the folders of this process that are left."""
    for folder in _folders:
        folder.remove()


def _new_folder(base: str, prefix: str) -> tuple[Path, tuple[int, int, int]]:
    try:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    except OSError as error:
        raise UsageError(f"no temporary folder can be made in {base}: {error.strerror}; set TMPDIR") from error
    try:
        return path, _marked(path)
    except BaseException as error:
        shutil.rmtree(path, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise UsageError(f"{path} cannot be written: {error.strerror}; set TMPDIR to another folder") from error


def _marked(path: Path) -> tuple[int, int, int]:
    """Write whose folder it is, and lock that; returns device, inode and descriptor of the lock.

    Who clears up between these steps finds nothing written, or a process that lives.
    """
    descriptor = os.open(path / OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    with contextlib.suppress(OSError, AttributeError):  # No locks here: then the process speaks for itself.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    owner = {"pid": os.getpid(), "started": _started(os.getpid()), "host": socket.gethostname()}
    status = os.fstat(descriptor)
    try:
        os.write(descriptor, json.dumps(owner).encode())
    except BaseException:
        os.close(descriptor)
        raise
    return status.st_dev, status.st_ino, descriptor


def _clear_once(base: str) -> None:
    """Remove the folders of dead owners, once in the life of a process."""
    if base in _cleared or fcntl is None:
        return
    _cleared.add(base)
    with contextlib.suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith("dynalyze-") and _NAME.fullmatch(entry.name):
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    _clear(entry.path)


def _clear(path: str) -> None:
    """Remove a folder where its owner is gone. It is opened first, so that nobody can put another in its place."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not _is_private(os.fstat(folder), stat.S_ISDIR):
            return
        with _lock_of(folder) as owner:
            if owner["host"] != socket.gethostname() or _lives(owner["pid"], owner["started"]):
                return
            for place, folders, files, inside in os.fwalk(".", topdown=False, follow_symlinks=False, dir_fd=folder):
                for name in [*folders, *files]:
                    if (place, name) != (".", OWNER):
                        _remove(name, inside)
            os.unlink(OWNER, dir_fd=folder)
            Path(path).rmdir()
    finally:
        os.close(folder)


@contextlib.contextmanager
def _lock_of(folder: int) -> Iterator[dict[str, int | str | None]]:
    """The owner of a folder, while we hold its lock. Raises OSError where somebody else does."""
    mark = os.open(OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    try:
        if not _is_private(os.fstat(mark), stat.S_ISREG):
            raise PermissionError(OWNER)
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield json.loads(os.read(mark, 4096))
    finally:
        os.close(mark)


def _is_private(status: os.stat_result, kind: Callable[[int], bool]) -> bool:
    return kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _remove(name: str, inside: int) -> None:
    """A file, a link, or a folder that is empty by now."""
    with contextlib.suppress(OSError):
        try:
            os.rmdir(name, dir_fd=inside)
        except NotADirectoryError:
            os.unlink(name, dir_fd=inside)


def _lives(pid: object, started: object) -> bool:
    """Whether the owner still runs; its number may be another process's by now."""
    if not isinstance(pid, int) or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except OSError:  # It is gone, or another user's, so it is another process.
        return False
    return started is None or _started(pid) == started


def _started(pid: int) -> str | None:
    """When a process began, in the kernel's ticks; None where that is not known."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        # "4711 (any name, with ) too) S 4700 ...": the name ends at the last parenthesis.
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return status[status.rindex(b")") + 2 :].split()[19].decode()
