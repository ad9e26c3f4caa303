"""What a reader of a valid number should know of it. Whether it is valid at all the worker itself tells (`check`)."""

from __future__ import annotations

from dynalyze.capture.bench.wire import Configuration
from dynalyze.report.measurements import Counts

_WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")


def doubts(configuration: Configuration, counts: Counts, device: str) -> list[str]:
    """Lines for the report."""
    found = []
    if configuration.compile and counts.eager_frames:
        found.append(
            f"{_functions(counts.eager_frames)} left in eager: the time is of compiled and eager code together"
        )
    if _wants_cuda_graphs(configuration, device):
        if counts.cudagraph_replays is None:
            found.append("whether CUDA graphs were replayed is not known: this torch does not tell")
        elif counts.cudagraph_skips and counts.cudagraph_replays:
            found.append("CUDA graphs were used for a part only: torch skipped them for the rest")
    elif configuration.compile and configuration.mode in _WITH_CUDA_GRAPHS:
        found.append(f"mode {configuration.mode} brings no CUDA graphs on {device or 'this device'}")
    return found


def _wants_cuda_graphs(configuration: Configuration, device: str) -> bool:
    return configuration.compile and configuration.mode in _WITH_CUDA_GRAPHS and device.startswith("cuda")


def _functions(count: int) -> str:
    return "one function was" if count == 1 else f"{count} functions were"
