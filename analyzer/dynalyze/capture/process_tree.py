"""Which processes there are below another, and the memory they hold. Reads /proc; empty where there is none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096  # Not on Windows, nor is /proc.


class Seen(NamedTuple):
    """One process at one moment; `rss` in bytes, pages shared with others included."""

    parent: int
    rss: int


def processes() -> dict[int, Seen]:
    """Every process that can be seen, by its id."""
    found: dict[int, Seen] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208  a list of names, quickly
    except OSError:
        return found
    for name in filter(str.isdigit, names):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            stat = file.read()
            # "4711 (any name, with ) too) S 4700 ...": the name ends at the last parenthesis.
            fields = stat[stat.rindex(b")") + 2 :].split()
            found[int(name)] = Seen(int(fields[1]), int(fields[21]) * _PAGE)
    return found


def below(root: int, seen: dict[int, Seen]) -> list[int]:
    """`root` and its descendants, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, each in seen.items():
        children.setdefault(each.parent, []).append(pid)
    found = [root] if root in seen else list(children.get(root, []))
    for pid in found:
        found.extend(child for child in children.get(pid, []) if child not in found)
    return found


def descendants(of: int | str = "self") -> Iterator[int]:
    """Those of one process, without a look at all that there are."""
    for tasks in sorted(Path(f"/proc/{of}/task").glob("*/children")):
        with contextlib.suppress(OSError):
            for pid in tasks.read_text().split():
                yield int(pid)
                yield from descendants(pid)


def memory_of(pids: list[int], seen: dict[int, Seen], limit: int) -> int:
    """The memory of these processes together. Pages that a fork shares are counted once they could matter.

    What they hold alone is read only above `limit`: the kernel has to walk all their pages for it.
    """
    rss = sum(seen[pid].rss for pid in pids if pid in seen)
    return sum(_private(pid, seen) for pid in pids if pid in seen) if rss > limit else rss


def _private(pid: int, seen: dict[int, Seen]) -> int:
    """What would be free if the process ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines()
    except OSError:
        return seen[pid].rss
    return sum(int(line.split()[1]) for line in lines if line.startswith((b"Private_Clean:", b"Private_Dirty:"))) * 1024


def command_of(pid: int) -> str:
    """The command line of a process; "" where it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def memory_bytes() -> int | None:
    """Memory that there is, a container's limit observed; None where it cannot be told."""
    known = [
        each for each in (_of_machine("MemTotal:"), *(_number(limit) for limit, _ in _CGROUPS)) if each is not None
    ]
    return min(known, default=None)


def available_bytes() -> int | None:
    """Memory that can be had without swapping, a container's limit observed; None where it cannot be told."""
    free = _of_machine("MemAvailable:")
    for limit, used in _CGROUPS:
        most, held = _number(limit), _number(used)
        if most is not None and held is not None:
            left = max(0, most - held)
            free = left if free is None else min(free, left)
    return free


def _of_machine(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
    return None


def _number(file: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(Path(file).read_text(encoding="ascii"))
    return None
