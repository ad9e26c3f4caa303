"""Runs a command in which everything can be written and nothing is: `PYTHON -I -S sandbox_init.py SPEC`.

Linux namespaces for one process tree: every folder stands under an overlay in memory, there is no network but loopback,
and no other process can be seen. It needs no rights where user namespaces may be made (Linux 5.11 and later). SPEC is a
JSON file: `argv`, `folder` (the working directory), `keep` (folders that are really written to), `put` (files, by path,
that get the contents of others), `scratch` (an empty folder, where the overlays are mounted) and `left` (the file that
gets what the command left behind). Standard library only. The exit status is the command's, 128 and a signal's number
where one ended it, or UNAVAILABLE.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

UNAVAILABLE = 125
REMOVED = "removed"

_NEW = {"user": 0x10000000, "mount": 0x00020000, "network": 0x40000000, "ipc": 0x08000000, "pid": 0x20000000}
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _REMOUNT, _BIND, _ALL_BELOW, _PRIVATE = (
    1, 2, 4, 8, 32, 4096, 16384, 1 << 18,
)  # fmt: skip
_DIE_WITH_PARENT = 1
_SET_FLAGS, _UP = 0x8914, 0x1
_NOT_OURS = ("/proc", "/sys", "/dev", "/run")
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGURG)
_CHUNK = 1 << 22
_libc = ctypes.CDLL(None, use_errno=True)


def main(spec_file: str) -> int:
    """Run what the file says, and return the exit status."""
    with open(spec_file, encoding="utf-8") as file:
        spec = json.load(file)
    try:
        _enter()
    except OSError as error:
        return _unavailable(error)
    return _child(lambda: _first_process(spec))


def _enter() -> None:
    """New namespaces for this process and its children; its user is root in them, and has no more rights outside."""
    user, group = os.getuid(), os.getgid()
    _checked(_libc.unshare(sum(_NEW.values())))
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _first_process(spec: dict[str, Any]) -> int:
    """The first process of the new namespace: all others end with it."""
    try:
        layers = _mount_all(spec["scratch"], spec["keep"])
        _loopback_up()
        _put(spec["put"])
    except OSError as error:
        return _unavailable(error)
    scratch = os.open(".", os.O_RDONLY)

    def command() -> int:
        os.chdir(spec["folder"])
        os.execvp(spec["argv"][0], spec["argv"])

    status = _child(command, reap=True)
    os.fchdir(scratch)
    with open("left.json", "w", encoding="utf-8") as file:
        json.dump(dict(_left_behind(layers)), file)
    _copy("left.json", spec["left"])
    return status


def _child(main: Callable[[], int], *, reap: bool = False) -> int:
    """Fork for `main`; wait for its end, and with `reap` for whatever else ends until then. Signals are passed on."""
    child = os.fork()
    if child == 0:
        status = UNAVAILABLE
        with contextlib.suppress(BaseException):
            _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            status = main()
        os._exit(status)
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: os.kill(child, number))
    while True:
        ended, status = os.waitpid(-1 if reap else child, 0)
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _mount_all(scratch: str, keep: list[str]) -> list[str]:
    """Put an overlay over everything but `keep`; returns the folders that have one. The working directory is `scratch`
    then: below an overlay of its own, nobody finds it by its name.
    """
    points = _points(scratch)
    _mount("none", "/", "", _ALL_BELOW | _PRIVATE)
    _mount("tmpfs", scratch, "tmpfs", 0, "mode=755")
    os.chdir(scratch)
    for prefix, paths in (("keep", keep), ("lower", points)):
        for number, path in enumerate(paths):
            _bind(path, f"{prefix}{number}")
    layers = []
    for number, path in enumerate(points):
        layers.append(path if _overlay(number, path) else "")
    for number, path in enumerate(keep):
        _mount(f"keep{number}", path, "", _BIND | _ALL_BELOW)
    for path in ("/run", "/dev/shm"):
        if os.path.isdir(path) and not os.path.islink(path):
            _mount("tmpfs", path, "tmpfs", 0, "mode=1777")
    _mount("proc", "/proc", "proc", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)
    for path in ("/proc/sys", "/sys", "/"):
        _make_read_only(path)
    return layers


def _points(scratch: str) -> list[str]:
    """What gets an overlay: the folders of the root, and what is mounted below them."""
    mounted = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            path = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4])
            mounted.append(path)
    top = [f"/{name}" for name in os.listdir("/") if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}")]
    wanted = {path for path in [*mounted, *top] if path != "/" and os.path.exists(path)}
    return sorted(path for path in wanted if not path.startswith(_NOT_OURS) and path != scratch)


def _overlay(number: int, path: str) -> bool:
    """What is written below `path` goes to memory; where there is no such overlay it is read-only."""
    upper, work, lower = f"upper{number}", f"work{number}", f"lower{number}"
    if os.path.isdir(lower):
        os.mkdir(upper, 0o755)
        os.mkdir(work)
        kept = os.stat(lower)
        os.chmod(upper, stat.S_IMODE(kept.st_mode))
        with contextlib.suppress(OSError):
            _mount("overlay", path, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work},userxattr")
            return True
    _mount(lower, path, "", _BIND | _ALL_BELOW)
    _make_read_only(path)
    return False


def _bind(path: str, name: str) -> None:
    if os.path.isdir(path):
        os.mkdir(name)
    else:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    _mount(path, name, "", _BIND | _ALL_BELOW)  # A folder without what is mounted in it may not be shown.


def _make_read_only(path: str) -> None:
    if path != "/":
        _mount(path, path, "", _BIND | _ALL_BELOW)
    kept = os.statvfs(path).f_flag & (_NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)  # These may not be taken away.
    _mount("none", path, "", _REMOUNT | _BIND | _READ_ONLY | kept)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    encoded = [os.fsencode(each) for each in (source, target, kind, data)]
    result = _libc.mount(encoded[0], encoded[1], encoded[2] or None, ctypes.c_ulong(flags), encoded[3] or None)
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} (mount {kind or 'bind'} {target})")


def _put(files: dict[str, str]) -> None:
    """Other contents for some files, and another mode; where there is no source, none."""
    for path, source in files.items():
        if os.path.isdir(source):
            os.makedirs(path, exist_ok=True)
        elif source:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                _copy(source, path)
                shutil.copymode(source, path)
            except PermissionError:  # A file that nobody may change: another one is put over it.
                _mount(source, path, "", _BIND)
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)


def _loopback_up() -> None:
    """Many programs talk to themselves."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        fcntl.ioctl(anything, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))


def _left_behind(layers: list[str]) -> Iterator[tuple[str, str]]:
    """What is not as it was, by its path: mode and SHA-256 of a file, where a link leads, or REMOVED."""
    for number, layer in enumerate(layers):
        for folder, folders, files in os.walk(f"upper{number}") if layer else ():
            below = os.path.relpath(folder, f"upper{number}")
            for name in [*folders, *files]:
                yield os.path.normpath(os.path.join(layer, below, name)), _state(os.path.join(folder, name))


def _state(path: str) -> str:
    found = os.lstat(path)
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:  # How an overlay notes it.
        return REMOVED
    if stat.S_ISLNK(found.st_mode):
        return f"link to {os.readlink(path)}"
    mode = f"{found.st_mode:o}"
    if not stat.S_ISREG(found.st_mode):
        return mode
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return f"{mode} {digest.hexdigest()}"


def _copy(source: str, target: str) -> None:
    with open(source, "rb") as one, open(target, "wb") as other:
        other.write(one.read())


def _unavailable(error: OSError) -> int:
    print(error.strerror, file=sys.stderr)
    return UNAVAILABLE


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
