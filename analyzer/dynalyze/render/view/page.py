"""The whole page: its parts, and the sections in the order in which a reader meets them."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.registry import modules
from dynalyze.render.text.report import only_measured
from dynalyze.render.view.accuracy import accuracy_view
from dynalyze.render.view.audit import AttentionMatrixView, PolicyView, WarmupView
from dynalyze.render.view.compiles import (
    CandidatesView,
    CompilationsView,
    ModulesView,
    ProcessesView,
    files_view,
    forced_sizes_view,
    skipped_view,
)
from dynalyze.render.view.graphs import GraphsView
from dynalyze.render.view.links import MAX_RECOMPILES, Anchors, Index, first
from dynalyze.render.view.map import MapView
from dynalyze.render.view.measurements import MeasurementsView, StepMemoryView, measured_metrics
from dynalyze.render.view.plan import PlanView
from dynalyze.render.view.run import FindingsView, RunView, VerdictView, metrics_view
from dynalyze.render.view.sources import SourcesView
from dynalyze.render.view.timeline import TimelineView
from dynalyze.render.view.verified import FixesView
from dynalyze.report import Report

ANCHORS = (
    "policy", "verdict", "plan", "verified", "fixes", "step-memory", "breaks", "recompiles", "forced-sizes",
    "skipped", "candidates", "map", "compilations", "timeline", "processes", "sources", "files", "graphs", "modules",
    "measurements", "accuracy", "warmup", "attention-matrix", "environment", "glossary",
    "content", "report-json", "filter", "theme", "help", "keys",
)  # fmt: skip
"""The anchors that the templates of the spine name themselves; no fact may take one."""


@dataclass(frozen=True)
class Section:
    """A section and its entry in the contents; its template has the name of its anchor, in this folder."""

    present: object
    anchor: str
    title: str
    count: int | None = None
    folder: str = "partials"

    @property
    def template(self) -> str:
        return f"{self.folder}/{self.anchor.replace('-', '_')}.html.jinja"


class Page:
    """Everything that the page shows. `links` find what the templates name by its id or its place."""

    def __init__(self, report: Report) -> None:
        features = modules("view")
        anchors = Anchors([*ANCHORS, *(name for each in features for name in each.ANCHORS)])
        self.report = report
        self.title = f"{report.target.spec} · dynalyze"
        self.links = links = Index(report, anchors)
        self.listened = not only_measured(report)
        self.findings = FindingsView(report, links)
        self.graphs = GraphsView(report, links, anchors)
        self.map = MapView(report, links)
        self.timeline = TimelineView(report, links)
        self.policy = PolicyView(report.target.spec, report.policy) if report.policy else None
        self.verdict = VerdictView(report)
        plan = report.plan
        known = plan is not None and (plan.points or plan.not_measured or plan.shapes)
        self.plan = PlanView(plan) if plan is not None and known else None
        self.metrics = [*measured_metrics(report), *metrics_view(report)]
        self.recompiles = first(report.recompiles, MAX_RECOMPILES)
        self.compilations = CompilationsView(report, links)
        self.forced_sizes = forced_sizes_view(report)
        self.skipped = skipped_view(report)
        self.candidates = CandidatesView(report, links, anchors)
        self.modules = ModulesView(report, links, anchors)
        self.of_features = [own for each in features for own in each.sections(report, links, anchors)]
        self.step_memory = StepMemoryView(report, links)
        self.verified = FixesView(report, links, anchors)
        self.measurements = MeasurementsView(report, anchors)
        self.accuracy = accuracy_view(report, anchors)
        self.attention_matrix = AttentionMatrixView(report.attention_matrix) if report.attention_matrix else None
        self.warmup = WarmupView(report.warmup) if report.warmup else None
        self.processes = ProcessesView(report, anchors)
        self.sources = SourcesView(report, links, anchors, self.findings.shown.items)
        self.files = files_view(report, anchors)
        self.run = RunView(report)

    @property
    def sections(self) -> list[Section]:
        """What there is to show: the verdict and what to do, then what happened, then how fast and how right it is."""
        compiled = [
            Section(self.findings.breaks.total, "breaks", "Other graph breaks", self.findings.breaks.total),
            Section(self.recompiles.items, "recompiles", "Recompiles", self.recompiles.total),
            Section(self.forced_sizes.items, "forced-sizes", "Sizes made constant", self.forced_sizes.total),
            Section(self.skipped.items, "skipped", "Left in eager", self.skipped.total),
            Section(
                self.candidates.shown.items or self.candidates.regions, "candidates", "What could be compiled",
                self.candidates.shown.total or None,
            ),
            Section(self.map.nodes, "map", "Map"),
            Section(True, "compilations", "Compilations", self.compilations.shown.total),
            Section(self.timeline.sentences, "timeline", "Compile time"),
            Section(self.processes.shown.items, "processes", "Processes", self.processes.shown.total),
            Section(self.sources.files, "sources", "Line by line", len(self.sources.files)),
            Section(True, "files", "Traced files", self.files.total),
            Section(True, "graphs", "Graphs and kernels", self.graphs.shown.total),
            Section(
                self.modules.shown.items or self.modules.settings, "modules", "What was compiled",
                self.modules.shown.total,
            ),
        ]  # fmt: skip
        every = [
            Section(self.policy, "policy", "Audit"),
            Section(True, "verdict", "Verdict"),
            Section(self.plan, "plan", "What to compile"),
            Section(self.verified, "verified", "Changes", len(self.report.fixes)),
            Section(self.listened or self.findings.shown.items, "fixes", "Fix these first", self.findings.count),
            *self.of_features,
            Section(self.step_memory, "step-memory", "What a training step keeps"),
            *(compiled if self.listened else []),
            Section(self.measurements.groups, "measurements", "Measurements", self.measurements.total),
            Section(self.accuracy.items, "accuracy", "Answers", self.accuracy.total),
            Section(self.warmup, "warmup", "Warm-up", self.warmup.shapes.total if self.warmup else None),
            Section(self.attention_matrix, "attention-matrix", "Attention and dtypes"),
            Section(True, "environment", "Run it again"),
            Section(True, "glossary", "Glossary"),
        ]
        return [section for section in every if section.present]
