"""Items on a node of a cluster: the messages to and from it, and what its agent does with an item."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from dynalyze.capture.libraries import PREFIXES, library_facts
from dynalyze.facts.source_files import hash_of_set
from dynalyze.report import Report
from dynalyze.sweep.records import Item, Row
from dynalyze.sweep.work import Finished, Runner, RunSettings, page_of

_PROBE = f"""
import importlib.metadata, json
found = {{}}
for name in {("torch", *(library_facts(prefix).package for prefix in PREFIXES))}:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


class Parcel(msgspec.Struct):
    """An item for a node. `root` is the sweep's folder here, `shown_root` what results may call it.

    With `shipped` the node has that folder's files in the current folder of its Ray worker.
    """

    item: Item
    settings: RunSettings
    root: str = ""
    shown_root: str = ""
    shipped: bool = False


class ItemHost(msgspec.Struct, frozen=True):
    """The host that an item ran on, and the versions of its packages that decide a row, as one text."""

    host: str
    packages: str = ""

    def __str__(self) -> str:
        return f"{self.host} ({self.packages})" if self.packages else self.host


class Delivery(msgspec.Struct):
    """The answer to a parcel. `unusable` says why nothing can run on that node; the item was not started then."""

    node: ItemHost
    finished: Finished | None = None
    unusable: str = ""


class NodeWork:
    def __init__(self) -> None:
        self._folder = Path.cwd()
        self._runner: Runner | None = None
        self._versions: dict[str, str] = {}
        self._node = ItemHost(socket.gethostname())

    def delivery(self, data: bytes) -> bytes:
        parcel = msgspec.msgpack.decode(data, type=Parcel)
        runner = self._prepare(parcel.settings)
        # The sweep's folder on this node; "" where its items need none.
        root = str(self._folder) if parcel.shipped else parcel.root
        if problem := self._problem(parcel, root):
            return msgspec.msgpack.encode(Delivery(self._node, unusable=problem))
        if root:
            os.chdir(root)
        finished = runner.run(_placed(parcel.item, parcel.root, root))
        if parcel.shipped:
            finished = _renamed(finished, root, parcel.shown_root)
        finished.row.node = str(self._node)
        return msgspec.msgpack.encode(Delivery(self._node, finished))

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()

    def _prepare(self, settings: RunSettings) -> Runner:
        if self._runner is None or self._runner.settings != settings:
            self.close()
            os.environ.update(settings.env)
            self._runner = Runner(settings)
            self._versions = _versions(settings.python or sys.executable)
            packages = ", ".join(f"{name} {version}" for name, version in self._versions.items())
            self._node = ItemHost(self._node.host, packages)
        return self._runner

    def _problem(self, parcel: Parcel, root: str) -> str:
        spec = parcel.item.spec
        needed = ["torch", *([library_facts(spec.library).package] if spec.mode == "library" else [])]
        lacking = [name for name in needed if name not in self._versions]
        if lacking:
            python = parcel.settings.python or sys.executable
            return f"{self._node.host}: {python} has no {' and no '.join(lacking)}"
        return "" if not root or Path(root).is_dir() else f"{self._node.host}: there is no folder {root}"


def _placed(item: Item, there: str, here: str) -> Item:
    """The item with its file below our copy of the sweep's folder; one from elsewhere keeps its path."""
    path = item.spec.path
    if path is None or there == here:
        return item
    file = Path(os.path.normpath(Path(there, path)))
    if not file.is_relative_to(there):
        return item
    return item.at(path if not Path(path).is_absolute() else str(Path(here, file.relative_to(there))), here)


def _renamed(finished: Finished, here: str, there: str) -> Finished:
    """The results with the sweep's folder in place of our copy of it, as a run on the first machine gives them."""
    old, new = here.encode(), msgspec.json.encode(there)[1:-1]
    row = msgspec.json.decode(msgspec.json.encode(finished.row).replace(old, new), type=Row)
    output = finished.output.replace(here, there)
    if finished.report is None:
        return Finished(row, output=output)
    report = msgspec.json.decode(finished.report.replace(old, new), type=Report)
    report.traced_hash = hash_of_set(report.traced_files)
    # A page shortens paths: there it would be too late to rename them.
    return Finished(row, msgspec.json.encode(report), page_of(report), output)


def _versions(python: str) -> dict[str, str]:
    try:
        answer = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return {}
    versions: dict[str, str] = json.loads(answer.stdout)
    return versions
