"""A comment for a pull request: the verdict, what was checked, what to fix first; the rest folded away.

Text from a run is shown as it is: it can neither format, link, mention nor embed anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.files.paths import portable_path
from dynalyze.render.findings import counting, waived
from dynalyze.render.text import bench as words_bench
from dynalyze.render.text import policy as words_policy
from dynalyze.render.text.fixes import HOW_TO_GO_ON, fix_command
from dynalyze.render.text.report import (
    SEVERITY_WORDS,
    command_line,
    count_of,
    duration,
    impact_words,
    totals,
    tried_words,
    trust_notes,
    verdict,
)  # fmt: skip
from dynalyze.report import Finding, Report, Severity
from dynalyze.report.audit import CheckStatus
from dynalyze.text.escape import clipped, visible

_LONGEST_TEXT = 500
_SPAN = re.compile(r"`([^`]+)`")
# Whatever Markdown, HTML, or GitHub's mathematics may read as a mark; spelled as entities it is only a character.
_MARKUP = re.compile(r"[&<>`\\*_\[\]#|~$@]|:(?=//)")
# GitHub makes a link of @name, #12 and www.name wherever they stand in a text: a character without width parts them.
_REFERENCE = re.compile(r"&#64;|&#35;|www(?=\.)", re.IGNORECASE)


def prose(text: str) -> str:
    """A sentence on one line. What stands between backticks stays code."""
    parts = _SPAN.split(_one_line(text))
    return "".join(
        _as_code(part) if number % 2 else _REFERENCE.sub(lambda found: f"{found[0]}&#8203;", _spelled(part))
        for number, part in enumerate(parts)
    )


def code(text: str) -> str:
    """A piece of code on one line; "" stays ""."""
    return _as_code(_one_line(text))


def _as_code(text: str) -> str:
    return f"<code>{_spelled(text)}</code>" if text.strip() else ""


def _spelled(text: str) -> str:
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text)


def _one_line(text: str) -> str:
    return clipped(visible(" ".join(text.split())), _LONGEST_TEXT)


_OPEN, _MOST_FOLDED, _MOST_CHECKS = 5, 40, 40
_LONGEST = 60_000
"""GitHub refuses a comment of more than 65,536 characters."""

_MARKS: dict[Severity, str] = {"error": "❌", "warning": "⚠️", "info": "ℹ️"}
_CHECKS: dict[CheckStatus, str] = {
    "passed": "✅ passed", "failed": "❌ failed", "unknown": "❔ not known", "waived": "☑️ waived",
}  # fmt: skip


def render(report: Report) -> str:
    """One comment in GitHub's Markdown. Where all would not fit, findings at the end are left out, and counted."""
    against = counting(report)
    for folded in (_MOST_FOLDED, _OPEN, 0):
        text = "\n".join(_parts(report, against, folded))
        if len(text) <= _LONGEST:
            break
    return f"{text.rstrip()}\n"


def _parts(report: Report, against: list[Finding], folded: int) -> Iterator[str]:
    policy = report.policy
    yield from (f"### {_heading(report, against)}: {code(report.target.spec)}", "")
    if policy is not None and policy.summary:
        yield from (f"<b>{prose(policy.summary)}</b>", "")
        if policy.advice and not policy.passed:
            yield from (f"→ {prose(policy.advice)}", "")
    yield from (prose(verdict(report)), "")
    yield from _table(report)
    if against:
        yield from ("#### Fix these first", "", *_list(report, against[:_OPEN]))
    if command := fix_command(report):
        yield from (f"{code(command)} {HOW_TO_GO_ON}.", "")
    if (number := len(against) - _OPEN) > 0:
        rest = list(_list(report, against[_OPEN : _OPEN + folded]))
        if number > folded:
            rest += [f"{count_of(number - folded, 'finding')} left out here: see the page or the JSON.", ""]
        yield from _folded(count_of(number, "more finding"), rest)
    yield from _passed(report, against)
    yield from _folded("The run", _run(report))


def _heading(report: Report, against: list[Finding]) -> str:
    """The one thing to know: a policy's verdict, or the worst of what was found."""
    if report.policy is not None:
        return "✅ dynalyze: passed" if report.policy.passed else "❌ dynalyze: failed"
    worst = next((level for level in _MARKS if any(each.severity == level for each in against)), None)
    if report.outcome.status != "complete":
        worst = "error"
    return f"{_MARKS[worst] if worst else '✅'} dynalyze"


def _table(report: Report) -> Iterator[str]:
    if report.policy is not None and report.policy.checks:
        checks = words_policy.worst_first(report.policy.checks)
        yield from ("| check | result | found | required |", "|---|---|---|---|")
        for check in checks[:_MOST_CHECKS]:
            result = prose(words_policy.found(check))
            yield f"| {prose(words_policy.title(check))} | {_CHECKS[check.status]} | {result} | {prose(check.limit)} |"
    else:
        yield from ("| | |", "|---|---|")
        yield from (f"| {prose(name)} | {prose(found)} |" for name, found in _counts(report))
    yield ""


def _counts(report: Report) -> Iterator[tuple[str, str]]:
    counted = totals(report)
    yield "functions compiled", f"{counted.compiled:,} of {counted.frames:,}"
    yield "graph breaks", f"{counted.breaks:,}"
    yield "recompiles", f"{counted.recompiles:,}"
    if counted.seconds is not None:
        yield "compile time", duration(counted.seconds)
    best = words_bench.first_best(report.measurements)
    if best is not None:
        yield "speed", words_bench.claim(best)
    stepped = next((each for each in report.measurements if words_bench.step_memory(each)), None)
    if stepped is not None:
        yield f"memory of {stepped.configuration}", words_bench.step_memory(stepped)


def _list(report: Report, findings: list[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"- {_MARKS[finding.severity]} <b>{prose(finding.title)}</b> {_place(finding, report)}"
        if finding.location is not None and finding.location.code:
            yield f"  <br>{code(finding.location.code)}"
        if finding.impact is not None:
            yield f"  <br>{prose(impact_words(finding))}"
        if tried := tried_words(report, finding):
            yield f"  <br>{prose(tried)}"
        if finding.advice:
            yield f"  <br>→ {prose(finding.advice)}"
        for line in finding.detail.config.splitlines() if finding.detail is not None else ():
            yield f"  <br>setting {code(line)}"
    if findings:
        yield ""


def _place(finding: Finding, report: Report) -> str:
    place = finding.location
    rule = f"<sub>{prose(finding.rule)}</sub>"
    return f"{code(f'{portable_path(place.file, report.folder)}:{place.line}')} {rule}" if place is not None else rule


def _passed(report: Report, against: list[Finding]) -> Iterator[str]:
    kept = {id(finding) for finding in against}
    passed = [finding for finding in report.findings if id(finding) not in kept]
    reasons = waived(report)
    lines = [
        f"- {SEVERITY_WORDS[finding.severity]}: {prose(finding.title)} {_place(finding, report)}: "
        + prose(reasons.get(finding.fingerprint, "known to the baseline"))
        for finding in passed[:_MOST_FOLDED]
    ]
    yield from _folded(f"{count_of(len(passed), 'finding')} let pass", [*lines, ""] if lines else [])


def _run(report: Report) -> list[str]:
    environment = report.environment
    facts = {
        "torch": environment.get("torch"), "python": environment.get("python"), "device": environment.get("device"),
        "time": duration(report.outcome.seconds), "dynalyze": report.dynalyze,
    }  # fmt: skip
    lines = [f"- {name}: {prose(str(value))}" for name, value in facts.items() if value]
    lines += [f"- {prose(note)}" for note in trust_notes(report)]
    return [*lines, "", f"`dynalyze` was called as {code(command_line(report.command))}", ""]


def _folded(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield from (f"<details><summary>{title}</summary>", "", *lines, "</details>", "")
