"""Runs the items of a sweep as tasks of a Ray cluster: Ray decides where and when, we keep a bounded number with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dynalyze.privacy.redaction import redaction
from dynalyze.sweep.pool import Done
from dynalyze.sweep.ray import node
from dynalyze.sweep.ray.node_work import Delivery, ItemHost, Parcel
from dynalyze.sweep.ray.ray_session import LOCAL, connected
from dynalyze.sweep.records import Item
from dynalyze.sweep.rows import bare_row
from dynalyze.sweep.work import Finished, RunSettings
from dynalyze.text.errors import UsageError, first_line
from dynalyze.text.escape import say

_LOOK_SECONDS = 0.2
# An item whose worker died is tried once more, and is a crash when that one dies too.
_MOST_KILLED = 2
# Nodes come and go (preemption): that is no fault of the item, but some item may well be the end of every node.
_MOST_NODES_LOST = 5
# Tasks that wait tell an autoscaler what is needed, also while there is no node yet.
_WAITING = 16


@dataclass
class _Submitted:
    item: Item
    killed: int = 0
    nodes_lost: int = 0


class ClusterPool:
    """The nodes of a Ray cluster as a pool: `with` connects, and disconnects.

    `folder` is the sweep's folder where an item names a file of the user's; it is shipped to the nodes unless they see
    it under the same path (`shared_disk`, or a cluster that is started here).
    """

    def __init__(
        self, address: str, settings: RunSettings, *, workers: int | None = None, gpus_per_item: float | None = None,
        folder: Path | None = None, shared_disk: bool = False,
    ) -> None:  # fmt: skip
        self.workers = workers or 1
        self.notes: list[str] = []
        self._most = workers
        self._settings = settings
        self._gpus = gpus_per_item
        self._folder = None if folder is None else folder.resolve()
        ships = self._folder is not None and not shared_disk
        self._session = connected(address, self._folder if ships else None, workers)
        self._connection = ExitStack()
        self._ray: Any = None
        self._starts_cluster = address == LOCAL
        self._ships = ships and not self._starts_cluster
        self._pending: dict[Any, _Submitted] = {}
        self._nodes: set[ItemHost] = set()
        self._announced: set[Demand] = set()
        self._largest = 0.0

    def __enter__(self) -> ClusterPool:
        self._ray = self._connection.enter_context(self._session)
        self._connection.callback(self._cancel)
        self.workers = self._most or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._largest = max((each.get("CPU", 0.0) for each in self._resources()), default=0.0)
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def run(self, items: Iterable[Item], done: Done, keep_on: Callable[[], bool]) -> None:
        """As `Pool.run` says. Raises UsageError where a node cannot run any item."""
        waiting = iter(items)
        while keep_on():
            # As many as the cluster can take, and some to wait for room.
            cpus = int(self._ray.cluster_resources().get("CPU", 0)) if self._most is None else 0
            most = 2 * cpus + _WAITING if self._most is None else self._most
            while len(self._pending) < most and (item := next(waiting, None)) is not None:
                self._submit(_Submitted(item))
            if not self._pending:
                break
            ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=_LOOK_SECONDS)
            for reference in ready:
                self._collect(reference, done)
        self._cancel()
        self._note_mixture()

    def _submit(self, submitted: _Submitted) -> None:
        demand = demand_of(submitted.item, self._settings, self._gpus, self._largest)
        self._check(demand)
        # Ray's own retries tell nobody whether a node or an item was at fault: `_collect` counts them.
        task = self._ray.remote(node.run).options(
            name=submitted.item.target, max_retries=0,
            num_cpus=demand.cpus, num_gpus=demand.gpus, memory=demand.memory,
        )  # fmt: skip
        self._pending[task.remote(msgspec.msgpack.encode(self._parcel(submitted.item)))] = submitted

    def _parcel(self, item: Item) -> Parcel:
        root = "" if self._folder is None else str(self._folder)
        shown = redaction()(root) if self._settings.redact else root
        return Parcel(item, self._settings, root, shown, self._ships)

    def _check(self, demand: Demand) -> None:
        """Say once what no node has room for: Ray would wait for one in silence."""
        if demand in self._announced:
            return
        self._announced.add(demand)
        if any(map(demand.fits, self._resources())):
            return
        if self._starts_cluster:
            raise UsageError(f"--cluster local: this machine cannot give one item {demand}")
        say(f"no node of the cluster has {demand} for one item; waiting for one")

    def _resources(self) -> list[dict[str, float]]:
        return [each["Resources"] for each in self._ray.nodes() if each["Alive"]]

    def _collect(self, reference: Any, done: Done) -> None:
        submitted = self._pending.pop(reference)
        errors = self._ray.exceptions
        try:
            delivery = msgspec.msgpack.decode(self._ray.get(reference), type=Delivery)
        except (errors.NodeDiedError, errors.ObjectLostError):
            submitted.nodes_lost += 1
        except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.RayTaskError) as error:
            _refuse_broken_node(error)
            submitted.killed += 1
        except errors.RuntimeEnvSetupError as error:
            raise UsageError(f"a node could not get what this sweep ships: {first_line(error)}") from error
        else:
            if delivery.unusable:
                raise UsageError(f"a node of the cluster cannot run the items: {delivery.unusable}")
            self._nodes.add(delivery.node)
            assert delivery.finished is not None
            delivery.finished.row.attempts += submitted.killed + submitted.nodes_lost
            done(submitted.item, delivery.finished)
            return
        if submitted.killed >= _MOST_KILLED:
            why = "it ended the process that runs the items, twice"
        elif submitted.nodes_lost >= _MOST_NODES_LOST:
            why = f"its node was lost, {submitted.nodes_lost} times"
        else:
            self._submit(submitted)
            return
        row = bare_row(submitted.item, "crash", why, submitted.killed + submitted.nodes_lost)
        done(submitted.item, Finished(row))

    def _cancel(self) -> None:
        for reference in self._pending:
            self._ray.cancel(reference, force=True)
        self._pending.clear()

    def _note_mixture(self) -> None:
        """Note which nodes had which versions, where they differ: their rows do not compare."""
        hosts: dict[str, set[str]] = {}
        for each in self._nodes:
            hosts.setdefault(each.packages, set()).add(each.host)
        if len(hosts) > 1:
            shown = [
                f"{packages} on {f'{len(names)} of them' if self._settings.redact else ', '.join(sorted(names))}"
                for packages, names in sorted(hosts.items())
            ]
            self.notes.append(f"The nodes had different versions: {'; '.join(shown)}.")


def _refuse_broken_node(error: Exception) -> None:
    """Raise UsageError where a task failed for another reason than its item: every item would fail there."""
    cause = getattr(error, "cause", None)
    if cause is not None and not isinstance(cause, node.AgentLost):
        why = cause if isinstance(cause, node.NodeUnusable) else first_line(cause)
        raise UsageError(f"a node of the cluster cannot run the items: {why}") from error


@dataclass(frozen=True)
class Demand:
    """Cores, GPUs and bytes of memory of one item, in Ray's sense: what is counted, not what is enforced."""

    cpus: float
    gpus: float
    memory: int | None

    def fits(self, resources: dict[str, float]) -> bool:
        asked = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory or 0}
        return all(resources.get(name, 0) >= amount for name, amount in asked.items())

    def __str__(self) -> str:
        gpus = f", {self.gpus:g} GPU" if self.gpus else ""
        return f"{self.cpus:g} CPU{gpus}" + (f", {self.memory / 2**30:.1f} GiB of memory" if self.memory else "")


def demand_of(item: Item, settings: RunSettings, gpus_per_item: float | None, largest: float) -> Demand:
    """What one item needs of a node.

    An item on CUDA gets one GPU, or `gpus_per_item`; one on the CPU none; a program, which chooses its device itself,
    gets GPUs where their number was given. An item timed on the CPU gets a node of `largest` cores to itself: others
    beside it would disturb the times.
    """
    device = item.options.device or ""
    if device.startswith("cuda"):
        gpus = 1.0 if gpus_per_item is None else gpus_per_item
    else:
        gpus = 0.0 if device or item.spec.mode == "library" else gpus_per_item or 0.0
    alone = settings.bench and not gpus
    return Demand(max(1.0, largest if alone else float(settings.threads or 1)), gpus, settings.memory)
