"""The page as data: dataclasses built from the report, ready for templates that only loop over them."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.render.view.accuracy import AccuracyView, accuracy_view
from dynalyze.render.view.attention_matrix import AttentionMatrixView, attention_matrix_view
from dynalyze.render.view.breaks import MAX_BREAKS, BreaksView, breaks_view
from dynalyze.render.view.compiles import (
    MAX_COMPILATIONS,
    MAX_RECOMPILES,
    CompilationsView,
    FilesView,
    RecompilesView,
    compilations_view,
    files_view,
    recompiles_view,
)
from dynalyze.render.view.findings import FindingsView, findings_view
from dynalyze.render.view.forced_sizes import ForcedSizesView, forced_sizes_view
from dynalyze.render.view.graphs import MAX_GRAPHS, GraphsView, graphs_view
from dynalyze.render.view.links import Anchors, index
from dynalyze.render.view.map import MapView, map_view
from dynalyze.render.view.measurements import MeasurementsView, measured_metrics, measurements_view
from dynalyze.render.view.modules import ModulesView, modules_view
from dynalyze.render.view.policy import PolicyView, policy_view
from dynalyze.render.view.processes import ProcessesView, processes_view
from dynalyze.render.view.run import (
    Check,
    Metric,
    RunView,
    VerdictView,
    checks_view,
    metrics_view,
    run_view,
    verdict_view,
)
from dynalyze.render.view.skipped import SkippedView, skipped_view
from dynalyze.render.view.sources import MAX_LINES, SourcesView, sources_view
from dynalyze.render.view.timeline import TimelineView, timeline_view
from dynalyze.render.view.warmup import WarmupView, warmup_view
from dynalyze.render.words import only_measured
from dynalyze.report import Report

SECTIONS = (
    "policy", "verdict", "fixes", "breaks", "recompiles", "compilations", "graphs", "map", "timeline", "skipped",
    "forced-sizes", "measurements", "accuracy", "warmup", "attention-matrix", "modules", "processes", "sources",
    "files", "checks", "environment", "content", "report-json", "filter", "theme", "help", "keys",
)  # fmt: skip
"""The anchors that the templates name themselves; no fact may take one."""


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


def build_page(report: Report) -> Page:
    """Everything that the page shows, in the order of the page."""
    anchors = Anchors(SECTIONS)
    links = index(report, anchors, MAX_BREAKS, MAX_RECOMPILES, MAX_COMPILATIONS, MAX_GRAPHS, MAX_LINES)
    findings = findings_view(report, links, anchors)
    return Page(
        title=f"{report.target.spec} · dynalyze",
        listened=not only_measured(report),
        policy=policy_view(report, links),
        verdict=verdict_view(report),
        metrics=[*measured_metrics(report), *metrics_view(report)],
        findings=findings,
        breaks=breaks_view(report.graph_breaks, links, anchors),
        recompiles=recompiles_view(report, links),
        compilations=compilations_view(report, links),
        forced_sizes=forced_sizes_view(report, links),
        graphs=graphs_view(report, links, anchors),
        map=map_view(report, links),
        skipped=skipped_view(report, links),
        modules=modules_view(report),
        measurements=measurements_view(report, anchors),
        accuracy=accuracy_view(report),
        attention_matrix=attention_matrix_view(report),
        warmup=warmup_view(report),
        timeline=timeline_view(report, links),
        processes=processes_view(report),
        sources=sources_view(report, links, anchors, findings.cards),
        files=files_view(report, anchors),
        checks=checks_view(report),
        run=run_view(report),
    )
