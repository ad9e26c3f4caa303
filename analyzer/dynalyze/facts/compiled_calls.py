"""Graph breaks, recompiles and graphs of calls that a process of its own recorded."""

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
    """Graph breaks, recompiles and the number of graphs, with some version of the code or some settings."""

    breaks: list[GraphBreak] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    graphs: int = 0

    @property
    def counts(self) -> CompileCounts:
        return CompileCounts(len(self.breaks), self.graphs, len(self.recompiles))


def compiled_calls(run: RunLog, torch_folder: str, texts: Mapping[str, str] | None = None) -> CompiledCalls:
    """Read them from a recorded process; `texts` are sources by path, where they differ from the files on disk."""
    places, sources = Places(torch_folder), Sources(run, texts=texts)
    compiled = compilations(run, places, sources)
    breaks = graph_breaks(run, places, sources, registry(torch_folder), compiled)
    graphs = sum(1 for each in compiled if each.status in ("compiled", "broken") and each.ops)
    return CompiledCalls(breaks, recompiles(run, compiled, breaks), graphs)
