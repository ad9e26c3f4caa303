"""Sizes and numbers that torch had made dynamic, and that a line of the program turned into constants."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dynalyze.capture.events import RecompileSeen, SpecializedSeen
from dynalyze.events.log import RunLog
from dynalyze.facts.guards import readable
from dynalyze.facts.recompiles import first_reason
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places, original_name
from dynalyze.report import Compilation, ForcedSize, Location, Recompile

_DIMENSION = re.compile(r"(?P<name>.+)\.size\(\)\[(?P<dimension>\d{1,3})\]")
_VIOLATED = re.compile(r"Constraints violated \((?P<sources>.+?)\)!")
# torch names the line behind a condition on sizes in the guard's comment; the beginning of its path is missing.
_ORIGIN = re.compile(r"  # (?P<path>[^\n#]{1,1000}?):(?P<line>\d{1,9}) in (?P<function>[\w<>.]{1,200}) \(")
_MOST_VALUES = 50

_Key = tuple[int, int, str, str]


@dataclass
class ForcedSizes:
    """The facts, and which of them holds for a process, epoch, compile id and source."""

    facts: list[ForcedSize] = field(default_factory=list)
    by_compile: dict[_Key, ForcedSize] = field(default_factory=dict)


def forced_sizes(run: RunLog, compiled: list[Compilation], places: Places, sources: Sources) -> ForcedSizes:
    """Each size and the line that fixed it once, with every value that it was fixed to."""
    by_key = {c.key: c for c in compiled}
    found = ForcedSizes()
    known: dict[tuple[str, Location], ForcedSize] = {}
    for process, event in run.all():
        if not isinstance(event, SpecializedSeen):
            continue
        compilation = by_key.get((process, event.epoch, event.id))
        # The innermost line outside torch.
        frames = places.stack(event.stack, [])
        at = places.innermost(frames)
        location = compilation.location if compilation is not None else None
        if at is not None and not places.is_torch(frames[at].file):
            location = sources.location(frames[at].file, frames[at].line, frames[at].name)
        if location is None:
            continue
        # What the compile failed for, because it was marked dynamic.
        failed = compilation is not None and compilation.status == "failed"
        violated = _VIOLATED.match(compilation.reason) if compilation is not None and failed else None
        refused = [readable(each) for each in violated["sources"].split(", ")] if violated is not None else []
        for source in dict.fromkeys(map(readable, event.sources)):
            if (size := known.get((source, location))) is None:
                named = _DIMENSION.fullmatch(source)
                dimension = int(named["dimension"]) if named else None
                size = ForcedSize(f"d{len(known) + 1}", location, source=source, dimension=dimension, process=process)
                known[source, location] = size
            found.by_compile[process, event.epoch, event.id, source] = size
            if event.value not in size.values and len(size.values) < _MOST_VALUES:
                size.values.append(event.value)
            if event.id not in size.compile_ids:
                size.compile_ids.append(event.id)
            size.refused = size.refused or source in refused
    found.facts = list(known.values())
    return found


def connect(run: RunLog, recompiles: list[Recompile], sizes: ForcedSizes, sources: Sources) -> None:
    """Tell each recompile over a size which line fixed that size, or asked about it."""
    # By compile: the line whose question about a size had another answer.
    asked: dict[tuple[int, int, str], Location] = {}
    for process, event in run.all():
        if not isinstance(event, RecompileSeen):
            continue
        origins = list(_ORIGIN.finditer(first_reason(event.text).partition("\n")[0]))
        files = (each.location.file for each in recompiles)
        file = next((file for file in files if file.endswith(origins[-1]["path"])), None) if origins else None
        if file is not None:
            line, function = int(origins[-1]["line"]), original_name(origins[-1]["function"])
            asked[process, event.epoch, event.id] = sources.location(file, line, function)
    for recompile in recompiles:
        place = (recompile.process, recompile.epoch)
        size = sizes.by_compile.get((*place, recompile.previous or "", recompile.source or ""))
        if size is not None:
            recompile.forced_by = size.location
            size.recompiles.append(recompile.id)
        elif recompile.cause == "symbolic":
            recompile.forced_by = asked.get((*place, recompile.compile_id))
