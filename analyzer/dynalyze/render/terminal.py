"""The summary on the terminal: a sentence first, then what to fix, each with its line of code and one action."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from dynalyze.render import audit_text, bench_text, fix_text
from dynalyze.render.console import Summary, one_line
from dynalyze.render.findings import as_cards, own_caller
from dynalyze.render.text import report as words
from dynalyze.render.text.bench import capital
from dynalyze.render.text.fixes import ON_COPIES, fix_command
from dynalyze.report import Finding, GraphBreak, Report, Severity
from dynalyze.text.escape import clipped

_MOST_FINDINGS = 10
_WHOLE = 3  # The costliest ones; of the others a line says what and where.
_SCREEN = 40  # Lines.
_MOST_IDS = 4
_EAGER_AND_ONE = 2  # Rows that a table makes no clearer.
_LONGEST_MESSAGE = 400
_SETTING = 12  # Below the setting itself.
_PRICED = ("graph-break", "recompile")
_MARKS: dict[Severity, tuple[str, str]] = {
    "error": ("✗", "bold red"),
    "warning": ("!", "bold yellow"),
    "info": ("·", "bold blue"),
}


def render(
    report: Report, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None, width: int | None = None,
    verbose: bool = False,
) -> str:  # fmt: skip
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset; `verbose`: every
    finding whole. Else the costliest three are, or two where a screen has no room for a third.
    """
    if report.fixed is not None:
        summary = Summary(color, width)
        fix_text.add(summary, report, report.fixed, words.trust_notes(report))
        summary.files(files)
        return summary.text()
    text = ""
    for whole in (None,) if verbose else (_WHOLE, _WHOLE - 1):
        text = _summary(Summary(color, width), report, files, whole)
        if text.count("\n") <= _SCREEN:
            break
    return text


def _summary(summary: Summary, report: Report, files: Sequence[tuple[str, str]], most_whole: int | None) -> str:
    cards, verbose = as_cards(report), most_whole is None
    audit_text.add_policy(summary, report.policy)
    summary.line(words.verdict(report, effects=verbose), style="bold")
    if raised := _what_ended_it(report):
        summary.line(one_line(raised), style="red")
    if took := words.compile_time(report):
        summary.line(took)
    for note in words.trust_notes(report):
        summary.line(note, style="dim")
    summary.line()
    whole = len(cards.findings) if most_whole is None else most_whole
    add_findings(summary, cards, cards.findings[:whole], brief=not verbose)
    _add_others(summary, cards.findings[:_MOST_FINDINGS], whole)
    left = 0 if verbose else len(cards.findings) - _MOST_FINDINGS
    more = [f"{words.count_of(left, 'more finding')}: see the page, -v or --json."] if left > 0 else []
    if len(cards.findings) > whole:
        summary.line()
    if closing := [each for each in (words.order_words(report) if verbose else "", *more) if each]:
        summary.line(" ".join(closing), style="dim")
    bench_text.add_plan(summary, report.plan)
    if report.plan is None:
        brief = not verbose and len(report.measurements) <= _EAGER_AND_ONE and not words.only_measured(report)
        bench_text.add(summary, report.measurements, report.accuracy, brief=brief)
    audit_text.add_warmup(summary, report.warmup)
    audit_text.add_attention(summary, report.attention_matrix)
    if command := fix_command(report):  # As a line to copy, with what it does as a comment of the shell.
        summary.unwrapped(Text.assemble(("Next  ", "dim"), one_line(command), (f"  # {ON_COPIES}", "dim")))
    summary.files(files)
    return summary.text()


def _add_others(summary: Summary, findings: Sequence[Finding], first: int) -> None:
    """A line for each finding from `first` on: where, what it costs, and what to do or what it is."""
    for number, finding in enumerate(findings[first:], first + 1):
        mark, style = _MARKS[finding.severity]
        where = f"{one_line(finding.location.short)} " if finding.location is not None else ""
        cost = words.short_cost(finding.impact)
        line = Text.assemble(
            (f"{mark} ", style), (f"{number}. ", "dim"), (where, "cyan"), f"({cost}) " if cost else "",
            (one_line(finding.title), "bold"),
        )  # fmt: skip
        summary.cut(line)


def _what_ended_it(report: Report) -> str:
    """The exception that ended the program, in its first line, and where it was raised."""
    outcome = report.outcome
    if outcome.status != "failed" or outcome.failed_stage is not None:
        return ""
    at = f" at {outcome.raised_at.file}:{outcome.raised_at.line}" if outcome.raised_at is not None else ""
    said = outcome.message.strip().partition("\n")[0].removesuffix(at)
    return f"{clipped(said, _LONGEST_MESSAGE)}{at}"


def add_findings(summary: Summary, report: Report, findings: Sequence[Finding], *, brief: bool = False) -> None:
    """Findings of a report, numbered from 1: each with its line of code and its action; `brief`: costs without
    what a call would take, settings without what they do.
    """
    breaks = {found.id: found for found in report.graph_breaks}
    noted: set[str] = set()
    for number, finding in enumerate(findings, 1):
        about = finding.evidence if finding.rule == "graph-break" else ()
        own_breaks = [breaks[name] for name in about if name in breaks]
        _finding(summary, number, finding, own_breaks, words.tried_words(report, finding), brief)
        _add_setting(summary, finding, None if brief else noted)
        summary.line()


def _finding(
    summary: Summary, number: int, finding: Finding, breaks: Sequence[GraphBreak], tried: str, brief: bool
) -> None:  # fmt: skip
    found, known = breaks[0] if breaks else None, Text()
    mark, style = _MARKS[finding.severity]
    title = Text(one_line(finding.title), style="bold")
    if found is not None:
        names = [found.gb_id or "", *[each.id for each in breaks[:_MOST_IDS]]]
        title.append(f"  {one_line(', '.join(filter(None, names)))}", style="dim")
    summary.beside(Text.assemble((f"{mark} ", style), (f"{number}.", "dim")), title)
    if finding.location is not None:
        summary.place(finding.location)
    if found is not None:
        if (caller := own_caller(found)) is not None:
            summary.indented("called from", "dim")
            summary.place(caller)
        seen = sum(each.occurrences for each in breaks)
        times = f", seen {words.count_of(seen, 'time')}" if seen > len(breaks) else ""
        for other in breaks[1:]:
            summary.place(other.location)
        known.append(f"{capital(words.effect_words(found.effect))}{times}. ", "dim")
    if finding.impact is not None:
        known.append(one_line(f"{words.impact_words(finding, brief=brief)}."), "bold")
    elif finding.rule in _PRICED:
        known.append("Cost not measured.", "dim")
    if known:
        summary.indented(known)
    if tried:
        summary.indented(tried)
    summary.action(finding.advice)


def _add_setting(summary: Summary, finding: Finding, noted: set[str] | None) -> None:
    """The setting to use in place of a change, or to see one. What it does is said once: `noted` holds what was, where
    it is said at all.
    """
    detail = finding.detail
    if detail is None or not detail.config:
        return
    for line in detail.config.splitlines():
        summary.setting(line)
    if noted is not None and detail.config_note and detail.config_note not in noted:
        summary.indented(detail.config_note, "dim", by=_SETTING)
        noted.add(detail.config_note)
