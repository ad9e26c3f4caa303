"""The page as data: dataclasses built from the report, ready for templates that only loop over them."""

from __future__ import annotations

from dynalyze.render.view.accuracy import accuracy_view
from dynalyze.render.view.attention_matrix import attention_matrix_view
from dynalyze.render.view.breaks import MAX_BREAKS, breaks_view
from dynalyze.render.view.candidates import candidates_view
from dynalyze.render.view.compiles import (
    MAX_COMPILATIONS,
    MAX_RECOMPILES,
    compilations_view,
    files_view,
    recompiles_view,
)
from dynalyze.render.view.findings import findings_view
from dynalyze.render.view.forced_sizes import forced_sizes_view
from dynalyze.render.view.glossary import GLOSSARY
from dynalyze.render.view.graphs import MAX_GRAPHS, graphs_view
from dynalyze.render.view.links import Anchors, index
from dynalyze.render.view.map import map_view
from dynalyze.render.view.measurements import measured_metrics, measurements_view
from dynalyze.render.view.modules import modules_view
from dynalyze.render.view.page import ANCHORS, Page
from dynalyze.render.view.policy import policy_view
from dynalyze.render.view.processes import processes_view
from dynalyze.render.view.run import checks_view, metrics_view, run_view, verdict_view
from dynalyze.render.view.skipped import skipped_view
from dynalyze.render.view.sources import MAX_LINES, sources_view
from dynalyze.render.view.timeline import timeline_view
from dynalyze.render.view.warmup import warmup_view
from dynalyze.report import Report
from dynalyze.words.report import only_measured


def build_page(report: Report) -> Page:
    """Everything that the page shows, in the order of the page."""
    anchors = Anchors(ANCHORS)
    links = index(report, anchors, MAX_BREAKS, MAX_RECOMPILES, MAX_COMPILATIONS, MAX_GRAPHS, MAX_LINES)
    findings = findings_view(report, links)
    graphs = graphs_view(report, links, anchors)
    drawn, timeline = map_view(report, links, anchors), timeline_view(report, links, anchors)
    return Page(
        title=f"{report.target.spec} · dynalyze",
        listened=not only_measured(report),
        policy=policy_view(report, links),
        verdict=verdict_view(report),
        metrics=[*measured_metrics(report), *metrics_view(report)],
        findings=findings,
        breaks=breaks_view(report.graph_breaks, links, anchors, drawn.anchors),
        recompiles=recompiles_view(report, links),
        compilations=compilations_view(report, links, {"map": drawn.anchors, "time": timeline.anchors}),
        forced_sizes=forced_sizes_view(report, links),
        graphs=graphs,
        map=drawn,
        skipped=skipped_view(report, links),
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
        glossary=GLOSSARY,
    )
