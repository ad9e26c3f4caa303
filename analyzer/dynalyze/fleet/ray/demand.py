"""What an item asks of a node of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynalyze.fleet.items import Item
from dynalyze.fleet.work import RunSettings


@dataclass(frozen=True)
class Demand:
    """Cores, GPUs and bytes of memory of one item, in Ray's sense: what is counted, not what is enforced."""

    cpus: float
    gpus: float
    memory: int | None

    @property
    def options(self) -> dict[str, Any]:
        """As the options of a task."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, "memory": self.memory}

    def fits(self, resources: dict[str, float]) -> bool:
        """Whether a node with these resources could ever take it."""
        asked = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory or 0}
        return all(resources.get(name, 0) >= amount for name, amount in asked.items())

    def __str__(self) -> str:
        parts = [f"{self.cpus:g} CPU"]
        if self.gpus:
            parts.append(f"{self.gpus:g} GPU")
        if self.memory:
            parts.append(f"{self.memory / 2**30:.1f} GiB of memory")
        return ", ".join(parts)


def demand_of(item: Item, settings: RunSettings, gpus_per_item: float | None, largest: float) -> Demand:
    """One GPU for an item whose device is CUDA, or as many as were asked for; those of the CPU get none.

    A program chooses its device itself: it gets GPUs where their number was given. Where the CPU is measured, an item
    has a node to itself, one of `largest` cores: others beside it would disturb what is timed.
    """
    device = item.device or ""
    if device.startswith("cuda"):
        gpus = 1.0 if gpus_per_item is None else gpus_per_item
    else:
        gpus = 0.0 if device or item.spec.mode == "transformers" else gpus_per_item or 0.0
    alone = settings.bench and not gpus
    return Demand(max(1.0, largest if alone else float(settings.threads or 1)), gpus, settings.memory)
