"""What findings cost on one scale, seconds: compiling, and the time of a call times the calls that were seen."""

from __future__ import annotations

from collections.abc import Sequence

from dynalyze.report import LATER_CALLS, Finding, Impact, Report

_SEVERITIES = ("error", "warning", "info")


def calls_seen(report: Report) -> int:
    """Calls of compiled code that the run is known to have made; `LATER_CALLS` where nobody counted them."""
    capture = report.capture
    return capture.recorded_calls or capture.replayed_calls or LATER_CALLS


def cost_seconds(impact: Impact | None, calls: int) -> float | None:
    """None where neither part was measured; a part that was not counts for nothing."""
    if impact is None or (impact.compile_seconds is None and impact.ms_per_call is None):
        return None
    return (impact.compile_seconds or 0.0) + calls * (impact.ms_per_call or 0.0) / 1e3


def costliest_first(report: Report, findings: Sequence[Finding]) -> list[Finding]:
    """Findings whose cost is known change places among each other, within a severity, by that. A graph break that is to
    be ended before others comes before them.
    """
    calls = calls_seen(report)
    costs = [cost_seconds(each.impact, calls) for each in findings]
    places = [index for index, cost in enumerate(costs) if cost is not None]
    order = sorted(places, key=lambda index: (_SEVERITIES.index(findings[index].severity), -(costs[index] or 0.0)))
    ordered = list(findings)
    for place, index in zip(places, order, strict=True):
        ordered[place] = findings[index]
    places_of_breaks = {each.id: each.location.at for each in report.graph_breaks}
    for finding in [each for each in ordered if each.after]:
        at = places_of_breaks.get(finding.after)
        of_break = (each for each in ordered if finding.after in each.evidence and not each.after)
        ends = next((each for each in of_break if each.location is not None and each.location.at == at), finding)
        if ordered.index(ends) > ordered.index(finding) and ends.severity == finding.severity:
            ordered.remove(ends)
            ordered.insert(ordered.index(finding), ends)
    return ordered
