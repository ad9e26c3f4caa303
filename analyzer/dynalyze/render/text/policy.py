"""The verdict of a policy in words that every renderer shares."""

from __future__ import annotations

from pathlib import Path

from dynalyze.report.audit import CheckStatus, PolicyCheck, PolicyVerdict, Waiver
from dynalyze.text.amounts import count_of

MARKS: dict[CheckStatus, str] = {"passed": "✓", "failed": "✗", "unknown": "?", "waived": "≈"}
_TITLES = {
    "run": "Run",
    "accuracy": "Answers",
    "max-graph-breaks": "Graph breaks",
    "max-recompiles": "Recompiles",
    "max-recompiles-after-warmup": "Recompiles after warm-up",
    "max-eager-frames": "Functions left in eager",
    "fail-on": "Findings",
    "min-speedup": "Speed",
    "max-memory-growth": "Memory",
    "max-compile-seconds": "Time to compile",
    "max-break-ms": "Price of graph breaks",
}
_STATUSES: dict[CheckStatus, str] = {
    "passed": "passed", "failed": "failed", "unknown": "not known", "waived": "waived or known",
}  # fmt: skip
_WORST: tuple[CheckStatus, ...] = ("failed", "unknown", "waived", "passed")


def title(check: PolicyCheck) -> str:
    """What is checked: "Graph breaks". A check of a newer version has its own name."""
    return _TITLES.get(check.name, check.name)


def status(check: PolicyCheck) -> str:
    return "not known, and required" if check.status == "unknown" and check.fails else _STATUSES[check.status]


def worst_first(checks: list[PolicyCheck]) -> list[PolicyCheck]:
    """What failed stands first, else in the order of the policy."""
    return sorted(checks, key=lambda check: (not check.fails, _WORST.index(check.status)))


def found(check: PolicyCheck) -> str:
    if check.status == "unknown":
        return check.reason or check.found
    return f"{check.found} ({check.reason})" if check.reason else check.found


def against_limit(check: PolicyCheck) -> str:
    """What was found and what is required: "6; required: 0"."""
    return f"{check.found or check.status}{f'; required: {check.limit}' if check.limit else ''}"


def outcome(verdict: PolicyVerdict) -> str:
    return "PASS" if verdict.passed else "FAIL"


def headline(verdict: PolicyVerdict) -> str:
    """The summary without its first word, as a sentence."""
    summary = details(verdict)
    is_word = summary.partition(" ")[0].isalpha()  # bf16 stays bf16.
    return f"{summary[:1].upper() if is_word else summary[:1]}{summary[1:]}." if summary else f"{outcome(verdict)}."


def details(verdict: PolicyVerdict) -> str:
    """The summary without its first word; empty where nothing is told."""
    return verdict.summary.removeprefix(outcome(verdict)).lstrip(": ")


def source(verdict: PolicyVerdict) -> str:
    """Which policy it was judged by, and what it passed because it was known."""
    sentence = f"Judged by {verdict.source}" if verdict.source else "Judged by the built-in policy"
    if verdict.baseline:
        sentence += f", against the baseline {Path(verdict.baseline).name}: {count_of(verdict.known, 'known finding')}"
        sentence += f", {len(verdict.new):,} new"
    elif not verdict.passed:
        sentence += ". Let known findings pass by --baseline FILE --update-baseline, or an `ignore` in pyproject.toml"
    return f"{sentence}."


def waiver(item: Waiver) -> str:
    place = ", ".join(part for part in (item.file, item.function) if part)
    what = f"{item.rule} ({place})" if place else item.rule
    if item.expired:
        used = f" and passes no more: {count_of(item.used, 'finding')}" if item.used else ""
        fate = f"expired on {item.expires}{used}"
    elif item.used:
        fate = f"lets {count_of(item.used, 'finding')} pass until {item.expires}"
    else:
        fate = "covers nothing in this run"
    return f"The waiver of {what} {fate}. Its reason: {item.reason}"


def fixed(verdict: PolicyVerdict) -> str:
    """What the baseline holds and the run does not show; empty where there is nothing of that."""
    if not verdict.fixed:
        return ""
    return f"Mended since the baseline: {', '.join(verdict.fixed)}. --update-baseline takes it out."
