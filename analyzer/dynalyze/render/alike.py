"""Findings as cards: graph breaks of one cause, effect and advice are one card with all their places.

The findings themselves stay one a break: a policy waives them, and a baseline knows them, one by one.
"""

from __future__ import annotations

import msgspec

from dynalyze.report import Finding, Report


def as_cards(report: Report) -> Report:
    """The report with alike findings put together; each card stands where the first of them does."""
    effects = {found.id: found.effect for found in report.graph_breaks}
    cards: dict[object, Finding] = {}
    for number, finding in enumerate(report.findings):
        key: object = number
        if finding.rule == "graph-break":
            told = [effects.get(name) for name in finding.evidence]
            key = repr([told, finding.severity, finding.title, finding.advice, finding.detail])
        first = cards.setdefault(key, finding)
        if first is not finding:
            evidence = [*first.evidence, *finding.evidence]
            cards[key] = msgspec.structs.replace(first, evidence=list(dict.fromkeys(evidence)))
    return msgspec.structs.replace(report, findings=list(cards.values()))
