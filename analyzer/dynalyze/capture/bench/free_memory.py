"""How much memory a process can still take without being ended for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_CGROUP = Path("/sys/fs/cgroup")


def free_memory(model: Callable[..., Any]) -> int | None:
    """Free bytes where the model lies: on its GPU, or in the host's memory; None where that is not known."""
    device: Any = next((p.device for p in model.parameters()), None) if isinstance(model, torch.nn.Module) else None
    if device is not None and device.type == "cuda":
        # What torch's allocator holds and does not use can be had too.
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + held)
    known = [free for free in (_free_on_host(), _free_in_cgroup()) if free is not None]
    return min(known, default=None)


def _free_on_host() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _free_in_cgroup() -> int | None:
    """What a container's limit leaves; file caches count as used there and could be dropped, so they are added."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # No cgroup of version 2, or no limit ("max").
        return None
    return limit - used + int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
