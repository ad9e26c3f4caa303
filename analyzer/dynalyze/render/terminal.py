"""The summary on the terminal: a sentence first, then what to fix, each with its line of code and one action."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from dynalyze.render import audit_text, bench_text, fix_text, plan_text
from dynalyze.render.console import Summary, one_line
from dynalyze.render.findings import as_cards, own_caller
from dynalyze.report import Finding, GraphBreak, Report, Severity
from dynalyze.report.fixes import Fixed
from dynalyze.text.visible import clipped
from dynalyze.words import report as words
from dynalyze.words.fixes import HOW_TO_GO_ON, fix_command

_MOST_FINDINGS = 10
_MOST_IDS = 4
_LONGEST_MESSAGE = 400
_SETTING = 12  # Below the setting itself.
_PRICED = ("graph-break", "recompile")
_MARKS: dict[Severity, tuple[str, str]] = {
    "error": ("✗", "bold red"),
    "warning": ("!", "bold yellow"),
    "info": ("·", "bold blue"),
}


def render(
    report: Report, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None, width: int | None = None
) -> str:
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset."""
    if report.fixed is not None:
        return _fixes(Summary(color, width), report, report.fixed, files)
    summary, cards = Summary(color, width), as_cards(report)
    audit_text.add_policy(summary, report.policy)
    summary.line(words.verdict(report), style="bold")
    if raised := _what_ended_it(report):
        summary.line(one_line(raised), style="red")
    if took := words.compile_time(report):
        summary.line(took)
    for note in words.trust_notes(report):
        summary.line(note, style="dim")
    summary.line()
    add_findings(summary, cards, cards.findings[:_MOST_FINDINGS])
    if order := words.order_words(report):
        summary.line(order, style="dim")
        summary.line()
    left = len(cards.findings) - _MOST_FINDINGS
    if left > 0:
        summary.line(f"{words.count_of(left, 'more finding')}: see the page or --json.", style="dim")
        summary.line()
    plan_text.add(summary, report.plan)
    if report.plan is None:
        bench_text.add(summary, report.measurements, report.accuracy)
    audit_text.add_warmup(summary, report.warmup)
    audit_text.add_attention(summary, report.attention_matrix)
    _add_next(summary, report)
    summary.files(files)
    return summary.text()


def _what_ended_it(report: Report) -> str:
    """The exception that ended the program, in its first line, and where it was raised."""
    outcome = report.outcome
    if outcome.status != "failed" or outcome.failed_stage is not None:
        return ""
    said, at = clipped(outcome.message.strip().partition("\n")[0], _LONGEST_MESSAGE), outcome.raised_at
    place = f"{at.file}:{at.line}" if at is not None else ""
    return said if place in said else f"{said} at {place}"


def _add_next(summary: Summary, report: Report) -> None:
    """How to go on, as a line to copy."""
    if command := fix_command(report):
        summary.unwrapped(Text.assemble(("Next  ", "dim"), one_line(command)))
        summary.indented(HOW_TO_GO_ON, "dim", by=6)
        summary.line()


def _fixes(summary: Summary, report: Report, fixed: Fixed, files: Sequence[tuple[str, str]]) -> str:
    """The summary of `dynalyze fix`."""
    fix_text.add(summary, report, fixed, words.trust_notes(report))
    summary.files(files)
    return summary.text()


def add_findings(summary: Summary, report: Report, findings: Sequence[Finding]) -> None:
    """Findings of a report, numbered from 1: each with its line of code and its action."""
    breaks = {found.id: found for found in report.graph_breaks}
    for number, finding in enumerate(findings, 1):
        about = finding.evidence if finding.rule == "graph-break" else ()
        told = [breaks[name] for name in about if name in breaks]
        _finding(summary, number, finding, told, words.tried_words(report, finding))


def _finding(summary: Summary, number: int, finding: Finding, told: Sequence[GraphBreak], tried: str) -> None:
    found = told[0] if told else None
    mark, style = _MARKS[finding.severity]
    title = Text(one_line(finding.title), style="bold")
    if found is not None:
        names = [found.gb_id or "", *[each.id for each in told[:_MOST_IDS]]]
        title.append(f"  {one_line(', '.join(filter(None, names)))}", style="dim")
    summary.beside(Text.assemble((f"{mark} ", style), (f"{number}.", "dim")), title)
    if finding.location is not None:
        summary.place(finding.location)
    if found is not None:
        if (caller := own_caller(found)) is not None:
            summary.indented("called from", "dim")
            summary.place(caller)
        seen = sum(each.occurrences for each in told)
        times = f", {words.count_of(seen, 'time')} seen" if seen > len(told) else ""
        for other in told[1:]:
            summary.place(other.location)
        summary.indented(f"{words.effect_words(found.effect)}{times}", "dim")
    if finding.impact is not None:
        summary.indented(words.impact_words(finding), "bold")
    elif finding.rule in _PRICED:
        summary.indented("cost not measured", "dim")
    if tried:
        summary.indented(tried)
    summary.action(finding.advice)
    if finding.detail is not None and finding.detail.config:  # To be set in place of a change, or to see it.
        for line in finding.detail.config.splitlines():
            summary.indented(Text.assemble(("setting  ", "dim"), one_line(line)))
        if finding.detail.config_note:
            summary.indented(finding.detail.config_note, "dim", by=_SETTING)
    summary.line()
