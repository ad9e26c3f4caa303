"""Peaks of memory, phase by phase, for a process of their own.

On CUDA what torch's allocator counts. On Linux the process's own high-water mark, which can be set back, together with
the memory of the processes it started: compile workers and compilers. Elsewhere the peak of the whole process, which
cannot be set back and is called so.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_KILO = 1024


def peaks(device: str, run_passes: Callable[[], None]) -> dict[str, Any]:
    """The peak since the process began, and that of `run_passes` alone, as an answer to the order `memory`."""
    if device == "cuda":
        return _on_cuda(run_passes)
    if (_PROC / "self" / "clear_refs").exists():
        with contextlib.suppress(OSError):
            return _on_linux(run_passes)
    run_passes()
    peak = _whole_process()
    return {"kind": "process", "steady_peak": peak, "compile_peak": peak, "reserved_peak": None}


def _on_cuda(run_passes: Callable[[], None]) -> dict[str, Any]:
    import torch

    torch.cuda.synchronize()
    compile_peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run_passes()
    torch.cuda.synchronize()
    return {
        "kind": "cuda",
        "steady_peak": torch.cuda.max_memory_allocated(),
        "compile_peak": compile_peak,
        "reserved_peak": torch.cuda.max_memory_reserved(),
    }


def _on_linux(run_passes: Callable[[], None]) -> dict[str, Any]:
    # Compilers that have ended: the largest of them, as the kernel keeps no more.
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _KILO
    compile_peak = _status("self", "VmHWM") + max(ended, sum(_status(pid, "VmHWM") for pid in _descendants()))
    _reset()
    run_passes()
    steady = _status("self", "VmHWM") + sum(_share(pid) for pid in _descendants())
    return {"kind": "rss", "steady_peak": steady, "compile_peak": max(compile_peak, steady), "reserved_peak": None}


def _reset() -> None:
    (_PROC / "self" / "clear_refs").write_text("5")


def _status(pid: int | str, field: str) -> int:
    """A size from /proc/PID/status; 0 for a process that has ended."""
    return _field(_PROC / str(pid) / "status", field)


def _share(pid: int) -> int:
    """The memory of another process, with what it shares counted in part: forked workers share most of theirs."""
    return _field(_PROC / str(pid) / "smaps_rollup", "Pss") or _status(pid, "VmRSS")


def _field(file: Path, field: str) -> int:
    with contextlib.suppress(OSError):
        for line in file.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return int(value.split()[0]) * _KILO
    return 0


def _descendants(of: int | str = "self") -> Iterator[int]:
    for tasks in sorted((_PROC / str(of) / "task").glob("*/children")):
        with contextlib.suppress(OSError):
            for pid in tasks.read_text().split():
                yield int(pid)
                yield from _descendants(pid)


def _whole_process() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * _KILO
