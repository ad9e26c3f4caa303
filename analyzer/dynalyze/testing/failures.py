"""What each assertion demands of a recorded report, and what a failure says: lines of code, causes and fixes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dynalyze.capture.environment import compile_disabled
from dynalyze.render.console import Summary, one_line
from dynalyze.render.terminal import add_findings
from dynalyze.report import Finding, GraphBreak, Location, Recompile, Report
from dynalyze.text.amounts import count_of
from dynalyze.text.visible import visible

_MOST = 10
_LONGEST = 600
_WIDTH = 100


def graph_break_failure(report: Report) -> str:
    """Every graph break of a report; "" where there is none."""
    found = report.graph_breaks
    return _failure(report, f"{count_of(len(found), 'graph break')}, expected none", found) if found else ""


def recompile_failure(report: Report) -> str:
    """Every recompile of a report; "" where there is none."""
    found = report.recompiles
    return _failure(report, f"{count_of(len(found), 'recompile')}, expected none", found) if found else ""


def compile_failure(report: Report, error: BaseException | None) -> str:
    """What failed to compile; "" where nothing did."""
    failed = [each for each in report.compilations if each.status == "failed"]
    if not failed and error is None:
        return ""
    findings = [each for each in report.findings if each.severity == "error"]
    place = failed[0].location if failed else None
    text = _text(report, "it does not compile", place, findings)
    return text if error is None else f"{text}\n\n{type(error).__name__}: {_said(error)}"


def silence_failure(report: Report) -> str:
    """Why nothing can be said: nothing was compiled, or not all of it recorded; "" where it can."""
    if report.outcome.status == "incomplete":
        return f"part of what was compiled was not recorded, so nothing is sure\n\n{one_line(report.outcome.message)}"
    if report.outcome.status != "nothing_compiled":
        return ""
    return f"nothing was compiled, so nothing was checked\n\n{one_line(report.outcome.message)}"


def _failure(report: Report, head: str, facts: Sequence[GraphBreak | Recompile]) -> str:
    """The findings that rest on some of these facts, the most urgent first."""
    ids = {fact.id for fact in facts}
    findings = [finding for finding in report.findings if ids & set(finding.evidence)]
    return _text(report, head, facts[0].location, findings)


def _text(report: Report, head: str, place: Location | None, findings: list[Finding]) -> str:
    if findings and findings[0].location is not None:
        place = findings[0].location
    summary = Summary(color=False, width=_WIDTH)
    add_findings(summary, report, findings[:_MOST])
    if len(findings) > _MOST:
        summary.line(f"{len(findings) - _MOST} more.")
    at = f" ({one_line(Path(place.file).name)}:{place.line} in {one_line(place.function)})" if place is not None else ""
    return f"{head}{at}\n\n{summary.text()}".rstrip()


def _said(error: BaseException) -> str:
    """The first paragraph of torch's message, without hints: the rest is about the compiler's own code."""
    lines = str(error).strip().partition("\n\n")[0].splitlines()
    return "\n".join(visible(line) for line in lines if not line.lstrip().startswith("Hint:"))[:_LONGEST]


def whole_graphs(report: Report, error: BaseException | None) -> str:
    """Something compiled, each function as one graph."""
    return graph_break_failure(report) or compiles(report, error)


def compiles(report: Report, error: BaseException | None) -> str:
    """Something compiled, and nothing failed to."""
    return compile_failure(report, error) or silence_failure(report)


def compiled_once(report: Report, error: BaseException | None) -> str:
    """Something compiled, and nothing twice."""
    return recompile_failure(report) or silence_failure(report)


def no_recompiles(report: Report, error: BaseException | None) -> str:
    """Nothing compiled again. Where torch.compile is switched off that proves nothing."""
    return recompile_failure(report) or (silence_failure(report) if compile_disabled() else "")
