"""How torch and the device were set up, as rules ask for it. None, or nothing, stands for what is not known."""

from __future__ import annotations

from collections.abc import Iterable

from dynalyze.report import Graph, Report
from dynalyze.report.models import ModuleFacts

FROM_CONFIGURATION = "Read from the configuration; the run did not show it."
FROM_GRAPH = "Read from the graph."
FROM_RUN = "Seen in this run."
LOW_PRECISION = ("bfloat16", "float16")


def capability(report: Report) -> tuple[int, int] | None:
    """The compute capability of the CUDA device in use; None without one."""
    found = report.settings.get("torch.cuda.get_device_capability")
    if isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(each, int) for each in found):
        return found[0], found[1]
    return None


def device_name(report: Report) -> str:
    """The GPU as torch calls it."""
    found = report.settings.get("torch.cuda.get_device_name")
    return found if isinstance(found, str) and found else "this GPU"


def autocast_dtype(report: Report, device: str) -> str | None:
    """The dtype of autocast on a kind of device while the first frame was compiled; None where it was off."""
    if report.settings.get(f"torch.autocast.{device}.enabled") is not True:
        return None
    found = report.settings.get(f"torch.autocast.{device}.dtype")
    return found if isinstance(found, str) else None


def graphs_on_cuda(report: Report) -> list[Graph]:
    """The graphs with an input on a CUDA device."""
    return [graph for graph in report.graphs if any(each.device.startswith("cuda") for each in graph.inputs)]


def on_cuda(module: ModuleFacts) -> bool:
    return any(device.startswith("cuda") for device in module.devices)


def dtype_of(module: ModuleFacts) -> str | None:
    """The dtype of all its floating parameters; None where there are several, or none."""
    floating = [name for name, number in module.parameters.items() if number and name.startswith(("float", "bfloat"))]
    return floating[0] if len(floating) == 1 else None


def evidence_of(items: Iterable[ModuleFacts | Graph]) -> list[str]:
    return [each.id for each in items]
