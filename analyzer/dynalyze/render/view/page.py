"""The whole page: its parts, and the sections in the order in which a reader meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynalyze.render.view.accuracy import AccuracyView
from dynalyze.render.view.attention_matrix import AttentionMatrixView
from dynalyze.render.view.breaks import BreaksView
from dynalyze.render.view.candidates import CandidatesView
from dynalyze.render.view.compiles import CompilationsView, FilesView, RecompilesView
from dynalyze.render.view.findings import FindingsView
from dynalyze.render.view.forced_sizes import ForcedSizesView
from dynalyze.render.view.graphs import GraphsView
from dynalyze.render.view.map import MapView
from dynalyze.render.view.measurements import MeasurementsView
from dynalyze.render.view.modules import ModulesView
from dynalyze.render.view.policy import PolicyView
from dynalyze.render.view.processes import ProcessesView
from dynalyze.render.view.run import Check, Metric, RunView, VerdictView
from dynalyze.render.view.skipped import SkippedView
from dynalyze.render.view.sources import SourcesView
from dynalyze.render.view.timeline import TimelineView
from dynalyze.render.view.warmup import WarmupView

ANCHORS = (
    "policy", "verdict", "fixes", "breaks", "recompiles", "forced-sizes", "skipped", "candidates", "map",
    "compilations", "timeline", "processes", "sources", "files", "graphs", "modules", "measurements", "accuracy",
    "warmup", "attention-matrix", "checks", "environment", "glossary", "recompiles-over-time", "kernel-treemap",
    "content", "report-json", "filter", "theme", "help", "keys",
)  # fmt: skip
"""The anchors that the templates name themselves; no fact may take one."""


@dataclass(frozen=True)
class Section:
    """A section and its entry in the contents; `part` is the template that draws it."""

    anchor: str
    title: str
    part: str
    count: int | None = None


@dataclass(frozen=True)
class Page:
    title: str
    listened: bool
    policy: PolicyView | None
    verdict: VerdictView
    metrics: list[Metric]
    findings: FindingsView
    breaks: BreaksView
    recompiles: RecompilesView
    compilations: CompilationsView
    forced_sizes: ForcedSizesView
    graphs: GraphsView
    map: MapView
    skipped: SkippedView
    candidates: CandidatesView
    modules: ModulesView
    measurements: MeasurementsView
    accuracy: AccuracyView
    attention_matrix: AttentionMatrixView | None
    warmup: WarmupView | None
    timeline: TimelineView
    processes: ProcessesView
    sources: SourcesView
    files: FilesView
    checks: list[Check]
    run: RunView
    glossary: Sequence[tuple[str, str]]

    @property
    def sections(self) -> list[Section]:
        """What there is to show: the verdict and what to do, then what happened, then how fast and how right it is."""
        return [
            *([Section("policy", "Audit", "policy")] if self.policy else []),
            Section("verdict", "Verdict", "verdict"),
            *([self._fixes()] if self.listened or self.findings.cards else []),
            *(self._compiled() if self.listened else []),
            *self._measured(),
            *([Section("checks", "Passed checks", "checks", len(self.checks))] if self.listened else []),
            Section("environment", "Run it again", "environment"),
            Section("glossary", "What the words mean", "glossary"),
        ]

    def _fixes(self) -> Section:
        return Section("fixes", "Fix these first", "findings", self.findings.amount.total)

    def _compiled(self) -> list[Section]:
        """What the compiler did."""
        told = [
            (True, Section("breaks", "Graph breaks", "breaks", self.breaks.amount.total)),
            (True, Section("recompiles", "Recompiles", "recompiles", self.recompiles.amount.total)),
            (
                bool(self.forced_sizes.items),
                Section("forced-sizes", "Sizes made constant", "forced_sizes", self.forced_sizes.amount.total),
            ),
            (bool(self.skipped.items), Section("skipped", "Left in eager", "skipped", self.skipped.amount.total)),
            (
                bool(self.candidates.items or self.candidates.regions),
                Section("candidates", "What could be compiled", "candidates", self.candidates.amount.total or None),
            ),
            (bool(self.map.nodes), Section("map", "Map", "map")),
            (True, Section("compilations", "Compilations", "compilations", self.compilations.amount.total)),
            (bool(self.timeline.table), Section("timeline", "Compile time", "timeline")),
            (bool(self.processes.items), Section("processes", "Processes", "processes", self.processes.amount.total)),
            (bool(self.sources.files), Section("sources", "Line by line", "sources", len(self.sources.files))),
            (True, Section("files", "Traced files", "files", self.files.amount.total)),
            (True, Section("graphs", "Graphs and kernels", "graphs", self.graphs.amount.total)),
            (
                bool(self.modules.items or self.modules.settings),
                Section("modules", "What was compiled", "modules", self.modules.amount.total),
            ),
        ]
        return [section for present, section in told if present]

    def _measured(self) -> list[Section]:
        """How fast it is, whether its answers are right, and what production would meet."""
        sections = []
        if self.measurements.groups:
            sections.append(Section("measurements", "Measurements", "measurements", self.measurements.amount.total))
        if self.accuracy.items:
            sections.append(Section("accuracy", "Answers", "accuracy", self.accuracy.amount.total))
        if self.warmup:
            sections.append(Section("warmup", "Warm-up", "warmup", self.warmup.amount.total))
        if self.attention_matrix:
            sections.append(Section("attention-matrix", "Attention and dtypes", "attention_matrix"))
        return sections
