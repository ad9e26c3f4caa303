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
    """Every visible process by its id."""
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
    """The descendants of one process, without a scan of all processes."""
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
    """Memory that would be free if the process ended."""
    return size_of(f"{pid}/smaps_rollup", "Private_Clean", "Private_Dirty") or seen[pid].rss


def size_of(file: str, *names: str) -> int:
    """Bytes that a file of /proc tells under these names, together; 0 where it does not, as of a process that ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = (line.partition(":") for line in Path("/proc", file).read_text().splitlines())
        return sum(int(value.split()[0]) * 1024 for name, _, value in lines if name in names)
    return 0


def command_of(pid: int | str) -> str:
    """The command line of a process, also "self"; "" where it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


_CGROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def memory_bytes() -> int | None:
    """Memory that there is, a container's limit observed; None where it is unknown."""
    known = [size_of("meminfo", "MemTotal"), *(_number(f"{folder}/{limit}") for folder, limit, _ in _CGROUPS)]
    return min(filter(None, known), default=None)


def available_bytes() -> int | None:
    """Memory that can be had without swapping, a container's limit observed; None where it is unknown."""
    free = [each] if (each := size_of("meminfo", "MemAvailable")) else []
    for folder, limit, used in _CGROUPS:
        most, held = _number(f"{folder}/{limit}"), _number(f"{folder}/{used}")
        if most is not None and held is not None:
            free.append(max(0, most - held + _file_caches(folder)))
    return min(free, default=None)


def _file_caches(folder: str) -> int:
    """File caches, which a container counts as used and the kernel can drop."""
    with contextlib.suppress(OSError, ValueError):
        lines = (line.split() for line in Path(folder, "memory.stat").read_text().splitlines())
        return sum(int(size) for name, size in lines if name in ("inactive_file", "active_file"))
    return 0


def _number(file: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit.
        return int(Path(file).read_text(encoding="ascii"))
    return None
