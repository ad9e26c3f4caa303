"""The whole page: its parts, and the sections in the order in which a reader meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynalyze.render.view.accuracy import AccuracyView, accuracy_view
from dynalyze.render.view.audit import (
    AttentionMatrixView,
    PolicyView,
    WarmupView,
    attention_matrix_view,
    policy_view,
    warmup_view,
)
from dynalyze.render.view.breaks import (
    MAX_BREAKS,
    BreaksView,
    breaks_view,
    forced_sizes_view,
    skipped_view,
)
from dynalyze.render.view.compiles import (
    MAX_COMPILATIONS,
    MAX_RECOMPILES,
    CompilationsView,
    FilesView,
    ProcessesView,
    RecompilesView,
    compilations_view,
    files_view,
    processes_view,
    recompiles_view,
)
from dynalyze.render.view.findings import FindingsView, findings_view
from dynalyze.render.view.graphs import MAX_GRAPHS, GraphsView, graphs_view
from dynalyze.render.view.links import Anchors, Index, Listed, index
from dynalyze.render.view.map import MapView, map_view
from dynalyze.render.view.measurements import MeasurementsView, measured_metrics, measurements_view
from dynalyze.render.view.modules import CandidatesView, ModulesView, candidates_view, modules_view
from dynalyze.render.view.run import (
    Metric,
    RunView,
    VerdictView,
    checks_view,
    metrics_view,
    run_view,
    verdict_view,
)
from dynalyze.render.view.sources import MAX_LINES, SourcesView, sources_view
from dynalyze.render.view.timeline import TimelineView, timeline_view
from dynalyze.report import ForcedSize, Report, SkippedFrame
from dynalyze.words.report import only_measured

ANCHORS = (
    "policy", "verdict", "fixes", "breaks", "recompiles", "forced-sizes", "skipped", "candidates", "map",
    "compilations", "timeline", "processes", "sources", "files", "graphs", "modules", "measurements", "accuracy",
    "warmup", "attention-matrix", "checks", "environment", "glossary", "recompiles-over-time", "kernel-treemap",
    "content", "report-json", "filter", "theme", "help", "keys",
)  # fmt: skip
"""The anchors that the templates name themselves; no fact may take one."""

_GLOSSARY: tuple[tuple[str, str], ...] = (
    ("eager", "PyTorch as it runs without torch.compile: one operation after the other, each as Python comes to it."),
    ("torch.compile", "Turns the operations of a function into fewer, faster ones when it is first called."),
    ("Dynamo", "The part of torch.compile that reads Python code and writes down which operations it makes."),
    ("frame", "One function that Dynamo was asked to compile. A function may be compiled several times."),
    ("graph", "The operations that were written down and compiled together, without Python between them."),
    (
        "graph break",
        "A line that Dynamo could not take into the graph. The graph ends there, Python runs the line, and a new graph "
        "begins after it; or the rest of the function stays in eager. Each one costs speed.",
    ),
    ("guard", "What compiled code relies on, such as the size of an input. It is checked at every call."),
    (
        "recompile",
        "A guard did not hold, so the function was compiled again, which takes as long as the first time. After a few "
        "of them torch gives up and runs the function in eager.",
    ),
    ("Inductor", "The default backend: the part of torch.compile that turns a graph into kernels."),
    ("kernel", "A piece of machine code that does the work of one or, better, many operations in one go."),
    ("break-even", "After so many calls the time that compiling took has been won back."),
)
"""What is explained, with its meaning, in the order in which one builds on the other."""


@dataclass(frozen=True)
class Section:
    """A section and its entry in the contents; `part` is the template that draws it."""

    anchor: str
    title: str
    part: str
    count: int | None = None


@dataclass(frozen=True)
class Page:
    """`links` find what the templates name by its id or its place."""

    title: str
    links: Index
    listened: bool
    policy: PolicyView | None
    verdict: VerdictView
    metrics: list[Metric]
    findings: FindingsView
    breaks: BreaksView
    recompiles: RecompilesView
    compilations: CompilationsView
    forced_sizes: Listed[ForcedSize]
    graphs: GraphsView
    map: MapView
    skipped: Listed[SkippedFrame]
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
    checks: list[str]
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


def build_page(report: Report) -> Page:
    """Everything that the page shows, in the order of the page."""
    anchors = Anchors(ANCHORS)
    links = index(report, anchors, MAX_BREAKS, MAX_RECOMPILES, MAX_COMPILATIONS, MAX_GRAPHS, MAX_LINES)
    findings = findings_view(report, links)
    graphs = graphs_view(report, links, anchors)
    drawn, timeline = map_view(report, links, anchors), timeline_view(report, links, anchors)
    return Page(
        title=f"{report.target.spec} · dynalyze",
        links=links,
        listened=not only_measured(report),
        policy=policy_view(report),
        verdict=verdict_view(report),
        metrics=[*measured_metrics(report), *metrics_view(report)],
        findings=findings,
        breaks=breaks_view(report.graph_breaks, anchors),
        recompiles=recompiles_view(report, links),
        compilations=compilations_view(report, links, {"map": drawn.anchors, "time": timeline.anchors}),
        forced_sizes=forced_sizes_view(report),
        graphs=graphs,
        map=drawn,
        skipped=skipped_view(report),
        candidates=candidates_view(report, links, anchors),
        modules=modules_view(report, links, anchors),
        measurements=measurements_view(report, anchors),
        accuracy=accuracy_view(report, anchors),
        attention_matrix=attention_matrix_view(report),
        warmup=warmup_view(report),
        timeline=timeline,
        processes=processes_view(report, anchors),
        sources=sources_view(report, links, anchors, findings.cards, graphs.items),
        files=files_view(report, anchors),
        checks=checks_view(report),
        run=run_view(report),
        glossary=_GLOSSARY,
    )
