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


def fact_failure(report: Report, facts: Sequence[GraphBreak | Recompile], noun: str) -> str:
    """All of these facts, graph breaks or recompiles, with the findings that rest on some of them, the most urgent
    first; "" where there is none.
    """
    ids = {fact.id for fact in facts}
    findings = [finding for finding in report.findings if ids & set(finding.evidence)]
    head = f"{count_of(len(facts), noun)}, expected none"
    return _text(report, head, facts[0].location, findings) if facts else ""


def compile_failure(report: Report, error: BaseException | None) -> str:
    """What failed to compile; "" where nothing did."""
    failed = [each for each in report.compilations if each.status == "failed"]
    if not failed and error is None:
        return ""
    findings = [each for each in report.findings if each.severity == "error"]
    place = failed[0].location if failed else None
    text = _text(report, "it does not compile", place, findings)
    if error is None:
        return text
    # The first paragraph of torch's message, without hints: the rest is about the compiler's own code.
    lines = str(error).strip().partition("\n\n")[0].splitlines()
    message = "\n".join(visible(line) for line in lines if not line.lstrip().startswith("Hint:"))
    return f"{text}\n\n{type(error).__name__}: {message[:_LONGEST]}"


def nothing_checked(report: Report) -> str:
    """Why nothing can be said: nothing was compiled, or not all of it recorded; "" where it can."""
    if report.outcome.status == "incomplete":
        return f"part of what was compiled was not recorded, so nothing is sure\n\n{one_line(report.outcome.message)}"
    if report.outcome.status != "nothing_compiled":
        return ""
    return f"nothing was compiled, so nothing was checked\n\n{one_line(report.outcome.message)}"


def _text(report: Report, head: str, place: Location | None, findings: list[Finding]) -> str:
    if findings and findings[0].location is not None:
        place = findings[0].location
    summary = Summary(color=False, width=_WIDTH)
    add_findings(summary, report, findings[:_MOST])
    if len(findings) > _MOST:
        summary.line(f"{len(findings) - _MOST} more.")
    at = f" ({one_line(Path(place.file).name)}:{place.line} in {one_line(place.function)})" if place is not None else ""
    return f"{head}{at}\n\n{summary.text()}".rstrip()


def whole_graphs(report: Report, error: BaseException | None) -> str:
    """Something compiled, each function as one graph."""
    return fact_failure(report, report.graph_breaks, "graph break") or compiles(report, error)


def compiles(report: Report, error: BaseException | None) -> str:
    """Something compiled, and nothing failed to."""
    return compile_failure(report, error) or nothing_checked(report)


def compiled_once(report: Report, error: BaseException | None) -> str:
    """Something compiled, and nothing twice."""
    return fact_failure(report, report.recompiles, "recompile") or nothing_checked(report)


def no_recompiles(report: Report, error: BaseException | None) -> str:
    """Nothing compiled again. Where torch.compile is switched off that proves nothing."""
    failure = fact_failure(report, report.recompiles, "recompile")
    return failure or (nothing_checked(report) if compile_disabled() else "")
