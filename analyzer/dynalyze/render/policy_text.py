"""The verdict of a policy on the terminal: pass or fail, what failed, and what ends it."""

from __future__ import annotations

from rich.text import Text

from dynalyze.render.console import Summary, one_line
from dynalyze.report.audit import CheckStatus, PolicyVerdict
from dynalyze.words import policy as words

_STYLES: dict[CheckStatus, str] = {"passed": "green", "failed": "bold red", "unknown": "yellow", "waived": "dim"}


def add(summary: Summary, verdict: PolicyVerdict | None) -> None:
    """Add the verdict to a summary; nothing where the report was judged by no policy."""
    if verdict is None:
        return
    told = one_line(words.headline(verdict))
    style = "bold green" if verdict.passed else "bold red"
    summary.beside(Text(f"{words.outcome(verdict)} ", style=style), Text(told))
    if verdict.advice:
        summary.action(verdict.advice)
    for check in words.worst_first(verdict.checks):
        line = Text(one_line(f"{words.title(check)}: {words.found(check)}"))
        if check.fails and check.limit:
            line.append(f"; asked for: {one_line(check.limit)}", style="dim")
        summary.beside(Text(words.MARKS[check.status], style=_STYLES[check.status]), line, by=3)
    notes = [words.source(verdict), *map(words.waiver, verdict.waivers), words.fixed(verdict)]
    for note in filter(None, notes):
        summary.indented(Text(one_line(note), style="dim"))
    summary.line()
