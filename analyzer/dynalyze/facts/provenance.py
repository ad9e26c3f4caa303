"""The lines that kernels came from: as Inductor itself tracked them, or else through the nodes that its comments name.

Inductor tracks them where `trace.provenance_tracking_level` is on, and then gives each call of a kernel a handle.
The records hold more handles than the output code (those of earlier graphs stay in them), so only the code's count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from dynalyze.events.types import Frame
from dynalyze.facts.kernels import Call, KernelFound
from dynalyze.facts.stacks import Places
from dynalyze.report import Graph, Kernel, LineKey, Location, Provenance

_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9}), in (?P<function>[^\n]+)(?:\n +(?P<code>\S[^\n]*))?',
    re.MULTILINE,
)
_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeError)

_Read = TypeVar("_Read")


class _Nodes(msgspec.Struct):
    """Inductor's record of nodes; each of its two maps has its inverse beside it."""

    kernels: dict[str, list[str]] = msgspec.field(name="cppCodeToPost", default_factory=dict)
    post_grad: dict[str, list[str]] = msgspec.field(name="postToPre", default_factory=dict)


@dataclass
class Tracked:
    """What Inductor tracked of one output code: nodes and stacks by the handle of a call, and nodes by nodes."""

    nodes: dict[str, list[str]] = field(default_factory=dict)
    pre_grad: dict[str, list[str]] = field(default_factory=dict)
    stacks: dict[str, list[str]] = field(default_factory=dict)

    def take(self, stage: str, text: str) -> bool:
        """Take over one record; False where it makes no sense. An empty one says that nothing was tracked."""
        if not text:
            return True
        if stage == "kernel_stacks":
            stacks = _read(text, dict[str, list[str]])
            self.stacks = stacks or {}
            return stacks is not None
        nodes = _read(text, _Nodes)
        if nodes is not None:
            self.nodes, self.pre_grad = nodes.kernels, nodes.post_grad
        return nodes is not None

    def origins(self, handle: str, places: Places) -> list[Location]:
        """The lines behind a call, in the order of the source: the innermost one outside torch of each stack."""
        found = (_innermost(stack, places) for stack in self.stacks.get(handle, ()))
        return sorted({each.at: each for each in found if each is not None}.values(), key=lambda each: each.at)


@dataclass
class CameFrom:
    """Where a kernel came from: its lines with the number of calls that each is in, and its nodes."""

    lines: dict[LineKey, Location] = field(default_factory=dict)
    calls: dict[LineKey, int] = field(default_factory=dict)
    source_nodes: list[str] = field(default_factory=list)
    post_grad_nodes: list[str] = field(default_factory=list)
    provenance: Provenance = ""

    def add_lines(self, origins: Iterable[Location], provenance: Provenance) -> None:
        """The lines of one call."""
        for origin in {each.at: each for each in origins}.values():
            self.lines.setdefault(origin.at, origin)
            self.calls[origin.at] = self.calls.get(origin.at, 0) + 1
            self.provenance = "inductor" if "inductor" in (provenance, self.provenance) else provenance

    def merge(self, other: CameFrom) -> None:
        """Add what is known of the same kernel in another part of the graph."""
        self.lines = {**other.lines, **self.lines}
        for line, calls in other.calls.items():
            self.calls[line] = self.calls.get(line, 0) + calls
        self.source_nodes = list(dict.fromkeys([*self.source_nodes, *other.source_nodes]))
        self.post_grad_nodes = list(dict.fromkeys([*self.post_grad_nodes, *other.post_grad_nodes]))
        self.provenance = self.provenance or other.provenance


def came_from(kernel: KernelFound, tracked: Tracked, named: Mapping[str, Location], places: Places) -> CameFrom:
    """Where the calls of a kernel came from. `named` has the line of each node that a comment can name."""
    found = CameFrom()
    for site in kernel.sites:
        told = [named[node] for node in site.nodes if node in named]
        known = tracked.origins(site.handle, places)
        if known:
            found.add_lines(_own(known, told) if kernel.is_library_call else known, "inductor")
        else:
            found.add_lines(told, "comments")
        found.post_grad_nodes += _nodes(kernel, site, tracked)
    found.post_grad_nodes = list(dict.fromkeys(found.post_grad_nodes))
    exact = dict.fromkeys(name for node in found.post_grad_nodes for name in tracked.pre_grad.get(node, ()))
    found.source_nodes = list(exact) or kernel.source_nodes
    return found


def lacking(graphs: Iterable[Graph], kernels: Iterable[Kernel]) -> list[str]:
    """A note where tracking was asked for and Inductor did not, or could not, do it."""
    kernels = list(kernels)
    compiled = {kernel.graph for kernel in kernels}
    tracked = {kernel.graph for kernel in kernels if kernel.provenance == "inductor"}
    if not compiled:
        return ["With --provenance there was no kernel of Inductor's to track."] if list(graphs) else []
    missing = len(compiled - tracked)
    if not missing:
        return []
    return [
        f"Asked for by --provenance, but Inductor tracked nothing for {missing} of {len(compiled)} graphs with "
        "kernels. Their lines are read from the comments in its code, which C++ kernels lack. Tracking takes torch 2.9 "
        "or later and INDUCTOR_PROVENANCE=1; code from a cache that was filled without it has none."
    ]


def _own(known: list[Location], told: list[Location]) -> list[Location]:
    """The lines of a library call itself: Inductor also tracks what was computed into its inputs."""
    lines = {each.at for each in told}
    return [each for each in known if each.at in lines] or known


def _nodes(kernel: KernelFound, site: Call, tracked: Tracked) -> list[str]:
    nodes = tracked.nodes.get(site.handle, [])
    if not kernel.is_library_call:
        return nodes
    own = set(site.nodes)
    return [node for node in nodes if node in own or own.intersection(tracked.pre_grad.get(node, ()))] or nodes


def _innermost(stack: str, places: Places) -> Location | None:
    found = list(_FRAME.finditer(stack))
    at = places.innermost([Frame(each["file"], int(each["line"]), each["function"]) for each in found])
    if at is None:
        return None
    frame = found[at]
    return Location(
        frame["file"], int(frame["line"]), function=frame["function"].strip(), code=(frame["code"] or "").strip()
    )


def _read(text: str, kind: type[_Read]) -> _Read | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except _UNREADABLE:
        return None
