"""What calls compiled in a process of its own: their graph breaks, recompiles and graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dynalyze.events.log import RunLog
from dynalyze.facts.breaks import graph_breaks
from dynalyze.facts.compilations import compilations
from dynalyze.facts.recompiles import recompiles
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report import GraphBreak, Recompile
from dynalyze.report.fixes import CompileCounts


@dataclass
class CompiledCalls:
    """What calls compile with some version of the code, or with some settings."""

    breaks: list[GraphBreak] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    graphs: int = 0

    @property
    def counts(self) -> CompileCounts:
        return CompileCounts(len(self.breaks), self.graphs, len(self.recompiles))


def compiled_calls(run: RunLog, torch_folder: str, texts: Mapping[str, str] | None = None) -> CompiledCalls:
    """Of a recorded process; `texts` are sources by path where these are not those on the disk."""
    places, sources = Places(torch_folder), Sources(run, texts=texts)
    compiled = compilations(run, places, sources)
    breaks = graph_breaks(run, places, sources, registry(torch_folder), compiled)
    graphs = sum(1 for each in compiled if each.status in ("compiled", "broken") and each.ops)
    return CompiledCalls(breaks, recompiles(run, compiled, breaks), graphs)
