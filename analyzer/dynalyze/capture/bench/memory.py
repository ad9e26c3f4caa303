"""Peaks of memory, phase by phase, for a process of their own; and how much memory a process can still take.

On CUDA a peak is what torch's allocator counts, and what CUDA graphs keep between calls, which it does not. On Linux
it is the process's own high-water mark, which can be set back, together with the memory of processes it started that
live on: compile workers. Elsewhere it is the peak of the whole process, which cannot be set back and is called so.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.commands import Peaks
from dynalyze.capture.process_tree import available_bytes, descendants, size_of

_KILO = 1024
_CLEAR = Path("/proc/self/clear_refs")


def peaks(device: str, run_passes: Callable[[], None]) -> Peaks:
    """The peak since the process began, and that of `run_passes` alone."""
    if device == "cuda":
        torch.cuda.synchronize()
        compile_peak = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run_passes()
        torch.cuda.synchronize()
        steady = torch.cuda.max_memory_allocated() + _kept_by_graphs()
        return Peaks("cuda", steady, max(compile_peak, steady), torch.cuda.max_memory_reserved())
    if _CLEAR.exists():
        with contextlib.suppress(OSError):
            return _on_linux(run_passes)
    run_passes()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else _KILO)
    return Peaks("process", peak, peak)


def _kept_by_graphs() -> int:
    """Bytes that CUDA graphs keep and that count as free: nothing else can have what lies in the pool of a graph."""
    found = 0
    with contextlib.suppress(Exception):  # The snapshot's fields are no part of torch's documented interface.
        for segment in torch.cuda.memory_snapshot():
            if tuple(segment["segment_pool_id"]) != (0, 0):
                found += segment["total_size"] - segment["allocated_size"]
    return found


def _on_linux(run_passes: Callable[[], None]) -> Peaks:
    # Compilers that have ended are left out: what the kernel keeps of them is the size of the process that forked them.
    started = sum(size_of(f"{pid}/status", "VmHWM") for pid in descendants())
    compile_peak = size_of("self/status", "VmHWM") + started
    _CLEAR.write_text("5")
    run_passes()
    steady = size_of("self/status", "VmHWM")
    for pid in descendants():  # What they share counted in part: forked workers share most of their memory.
        steady += size_of(f"{pid}/smaps_rollup", "Pss") or size_of(f"{pid}/status", "VmRSS")
    return Peaks("rss", steady, max(compile_peak, steady))


def free_memory(model: Callable[..., Any]) -> int | None:
    """Free bytes where the model lies: on its GPU, or in the host's memory; None where that is not known."""
    device: Any = next((p.device for p in model.parameters()), None) if isinstance(model, torch.nn.Module) else None
    if device is not None and device.type == "cuda":
        # What torch's allocator holds and does not use can be had too.
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + held)
    return available_bytes()
