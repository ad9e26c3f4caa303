"""The verdict of a policy on the terminal: pass or fail, what failed, and what ends it."""

from __future__ import annotations

from rich.text import Text

from dynalyze.audit_records import CheckStatus, PolicyVerdict
from dynalyze.render import policy_words as words
from dynalyze.render.console import Summary, one_line

_STYLES: dict[CheckStatus, str] = {"passed": "green", "failed": "bold red", "unknown": "yellow", "waived": "dim"}


def add(summary: Summary, verdict: PolicyVerdict | None) -> None:
    """Add the verdict to a summary; nothing where the report was judged by no policy."""
    if verdict is None:
        return
    told = one_line(words.headline(verdict))
    summary.line(Text.assemble((words.outcome(verdict), "bold green" if verdict.passed else "bold red"), "  ", told))
    if verdict.advice:
        summary.indented(Text.assemble(("→ ", "green"), one_line(verdict.advice)))
    for check in words.worst_first(verdict.checks):
        line = Text.assemble((f"{words.MARKS[check.status]} ", _STYLES[check.status]), f"{words.title(check)}: ")
        line.append(one_line(words.found(check)))
        if check.fails and check.limit:
            line.append(f"; asked for: {one_line(check.limit)}", style="dim")
        summary.indented(line)
    notes = [words.source(verdict), *map(words.waiver, verdict.waivers), words.fixed(verdict)]
    for note in filter(None, notes):
        summary.indented(Text(one_line(note), style="dim"))
    summary.line()
