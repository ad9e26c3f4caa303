"""What a rule is, and how all of them judge a report."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from dynalyze.report import Example, Finding, Report, Severity

# The ids of the facts that a broader rule is about.
_FACTS = {"graph-break": re.compile(r"b\d+"), "recompile": re.compile(r"r\d+")}
_SEVERITIES: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Rule:
    """A diagnosis. `judge` is a pure function of the facts; findings come with `rank`, lower is more urgent.

    `passed` is what the page says when the rule finds nothing. `of` are broader rules, in whose place its findings
    stand: `--fail-on` counts them to those too. `fix` and `example` are the catalogue's: a finding's advice says more.
    """

    id: str
    title: str
    severity: Severity
    description: str
    passed: str
    judge: Callable[[Report], Iterable[tuple[int, Finding]]]
    more_ids: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    fix: str = ""
    example: Example | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Every id its findings carry."""
        return (self.id, *self.more_ids)


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """Every rule, sorted by id."""
    from dynalyze.rules import diagnoses

    names = (module.name for module in pkgutil.iter_modules(diagnoses.__path__, f"{diagnoses.__name__}."))
    return tuple(sorted((importlib.import_module(name).RULE for name in names), key=lambda rule: rule.id))


def judge(report: Report) -> list[Finding]:
    """All findings: errors first, then by the rank that their rule gave; equal ones in the order of the facts.

    A rule that fails must not cost the user a run of hours: it is noted in `report.capture`, and the others go on.
    """
    found: list[tuple[int, Finding]] = []
    for rule in rules():
        try:
            found += rule.judge(report)
        except Exception as error:
            report.capture.notes.append(f"The rule {rule.id} failed, please report it: {type(error).__name__}: {error}")
    found.sort(key=lambda pair: (_SEVERITIES[pair[1].severity], pair[0]))
    return [finding for _, finding in found]


def reaches(findings: Iterable[Finding], level: str) -> bool:
    """Whether findings reach `--fail-on`: a severity and all above it, the id of a rule, or "none"."""
    if level == "none":
        return False
    if level in _SEVERITIES:
        worst = _SEVERITIES[level]
        return any(_SEVERITIES[finding.severity] <= worst for finding in findings)
    return any(level in stands_for(finding) for finding in findings)


def stands_for(finding: Finding) -> set[str]:
    """Its rule, and the broader ones of whose facts it tells in their place."""
    broader = next((rule.of for rule in rules() if finding.rule in rule.ids), ())
    return {finding.rule, *(name for name in broader if any(map(_FACTS[name].fullmatch, finding.evidence)))}
