"""What a rule is, which graph breaks and recompiles it tells of, and how all of them judge a report."""

from __future__ import annotations

import contextlib
import importlib
import math
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import msgspec

from dynalyze import registry
from dynalyze.report import (
    LATER_CALLS,
    Advice,
    Example,
    Finding,
    GraphBreak,
    Impact,
    Location,
    Recompile,
    Report,
    Severity,
    seconds_later,
)
from dynalyze.report.costs import costliest_first
from dynalyze.rules.recompile_series import Series, gather
from dynalyze.rules.settings import apart, as_python, read
from dynalyze.text.errors import UsageError

# The ids of the facts that a broader rule is about.
_FACTS = {"graph-break": re.compile(r"b\d+"), "recompile": re.compile(r"r\d+")}
_SEVERITIES: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}

Ranked: TypeAlias = tuple[int, Finding]
"""A finding and its rank, lower is more urgent."""
Judge: TypeAlias = Callable[[Report], Iterable[Ranked]]


@dataclass(frozen=True)
class Rule:
    """A diagnosis, written as the decorator of its `judge`, a pure function of the facts, whose name is its id with
    dashes. `rank` and `link`, the page behind its advice, are those of findings that have none of their own.

    `owns_breaks` gives the graph breaks, and `owns_recompiles` knows the series of recompiles, that it tells of in the
    place of graph-break and recompile: one root cause, one finding. `--fail-on` counts these to the broader rule too.
    Where several rules claim one, that with the lowest `precedence` has it, then the first by id. `at_limit` is what
    helps where its recompiles reached the recompile limit, which recompile-limit tells.

    `together` makes its findings of those of all rules, where several are better told as one.

    With `of_failure` its finding may be why the program failed, which program-failed leaves to it. `fix` and `example`
    are the catalogue's: a finding's advice says more.
    """

    title: str
    description: str
    severity: Severity = "warning"
    id: str = ""
    judge: Judge = lambda report: ()
    rank: int = 0
    link: str = ""
    more_ids: tuple[str, ...] = ()
    owns_breaks: Callable[[Report], Iterable[GraphBreak]] | None = None
    owns_recompiles: Callable[[Series, Report], bool] | None = None
    precedence: int = 0
    at_limit: str = ""
    of_failure: bool = False
    together: Callable[[Report, list[Ranked]], list[Ranked]] | None = None
    fix: str = ""
    example: Example | None = None

    def __call__(self, judge: Judge) -> Rule:
        return replace(self, id=judge.__name__.replace("_", "-"), judge=judge)

    @property
    def ids(self) -> tuple[str, ...]:
        """Every id its findings carry."""
        return (self.id, *self.more_ids)

    def finding(
        self,
        title: str,
        advice: Advice | str,
        *,
        why: str = "",
        example: Example | None = None,
        config: str = "",
        config_note: str = "",
        link: str | None = None,
        rank: int | None = None,
        rule: str = "",
        severity: Severity | None = None,
        location: Location | None = None,
        evidence: Iterable[str] = (),
        impact: Impact | None = None,
        after: str = "",
        package: str = "",
    ) -> Ranked:
        """A finding of this rule, or of another of its ids: rank, severity and link are the rule's unless given.

        `advice` is one sentence, with `why` and what else an Advice holds beside it, or a whole Advice.
        """
        if why and isinstance(advice, str):
            advice = Advice(advice, why, example, config, config_note, self.link if link is None else link)
        action, detail = (advice, None) if isinstance(advice, str) else (advice.action, advice)
        return self.rank if rank is None else rank, Finding(
            rule or self.id, severity or self.severity, title, location, list(evidence), action, impact, detail,
            after=after, package=package,
        )  # fmt: skip

    def breaks(self, report: Report) -> list[GraphBreak]:
        """The graph breaks that it has to tell of."""
        owners = break_owners(report)
        return [each for each in report.graph_breaks if owners.get(each.id) == self.id]

    def recompiles(self, report: Report) -> list[Series]:
        """The series that it has to tell of. Those that reached the recompile limit stay with that finding."""
        free, _ = gather(report)
        return [series for series in free if recompile_owner(series, report) is self]


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """Every rule, sorted by id."""
    from dynalyze.rules import diagnoses

    names = (module.name for module in pkgutil.iter_modules(diagnoses.__path__, f"{diagnoses.__name__}."))
    found = (vars(module).values() for module in [*map(importlib.import_module, names), *registry.modules("rules")])
    return tuple(sorted((each for own in found for each in own if isinstance(each, Rule)), key=lambda rule: rule.id))


def break_owners(report: Report) -> dict[str, str]:
    """The rule of each graph break that one claims, by the id of the break."""
    found: dict[str, str] = {}
    for rule in _by_precedence():
        for each in rule.owns_breaks(report) if rule.owns_breaks is not None else ():
            found.setdefault(each.id, rule.id)
    return found


def recompile_owner(series: Series, report: Report) -> Rule | None:
    """The rule that claims a series; None where it is left to the general one."""
    claim = (rule for rule in _by_precedence() if rule.owns_recompiles and rule.owns_recompiles(series, report))
    return next(claim, None)


@lru_cache(maxsize=1)
def _by_precedence() -> tuple[Rule, ...]:
    return tuple(sorted(rules(), key=lambda rule: rule.precedence))


def severity_of(breaks: Iterable[GraphBreak]) -> Severity:
    """That of the breaks themselves: an error where torch refused to compile."""
    return "error" if any(each.effect == "error" for each in breaks) else "warning"


def judge(report: Report) -> list[Finding]:
    """All findings: errors first, then by the rank that their rule gave, and by cost where that is known.

    A rule that fails must not cost the user a run of hours: it is noted in `report.capture`, and the others go on.
    """
    found: list[Ranked] = []
    for rule in rules():
        try:
            found += rule.judge(report)
        except Exception as error:
            report.capture.notes.append(f"The rule {rule.id} failed, please report it: {type(error).__name__}: {error}")
    for rule in rules():
        try:
            found = rule.together(report, found) if rule.together is not None else found
        except Exception as error:
            report.capture.notes.append(f"The rule {rule.id} failed, please report it: {type(error).__name__}: {error}")
    for _, finding in found:
        finding.impact = finding.impact or _break_cost(report, finding.evidence)
        if (said := finding.detail) is not None and said.config:
            parts = list(filter(None, map(as_python, apart(read(said.config))))) or [said.config]
            left = [each for each in parts if not setting_fails(report, finding.evidence, each)]
            if len(left) < len(parts):
                finding.detail = msgspec.structs.replace(said, config="\n".join(left), config_note="")
    found.sort(key=lambda pair: (_SEVERITIES[pair[1].severity], pair[0]))
    return costliest_first(report, [finding for _, finding in found])


def _break_cost(report: Report, evidence: Iterable[str]) -> Impact | None:
    """What graph breaks take of a call and of compiling together, where that was measured."""
    wanted = set(evidence)
    costs = (each.break_impact(report, wanted) for each in registry.modules("rules"))
    cost = next((each for each in costs if each is not None), Impact())
    spent = sum(each.compile_seconds or 0.0 for each in report.graph_breaks if each.id in wanted)
    if cost.ms_per_call is None and not spent:
        return None
    cost.compile_seconds, cost.what = round(spent, 6) or None, "of compile time" if spent else ""
    cost.seconds = seconds_later(spent or None, cost.ms_per_call)
    cost.calls = None if cost.seconds is None else LATER_CALLS
    return cost


def setting_fails(report: Report, evidence: Iterable[str], setting: str = "") -> bool:
    """Whether running showed that the setting ends nothing here; "" is all that was tried."""
    return any(each.setting_fails(report, set(evidence), setting) for each in registry.modules("settings"))


def recompiled_instead(report: Report, evidence: Iterable[str]) -> Recompile | None:
    """What functions compile again for once their setting keeps them from it, where running showed that."""
    found = (
        each.recompiled_instead(report, set(evidence))
        for each in registry.modules("settings")
        if hasattr(each, "recompiled_instead")
    )
    return next((each for each in found if each is not None), None)


BREAK_LIMIT = "max-break-ms"
"""The level of `--fail-on` that is a limit, `max-break-ms=0.5`, and the key of a policy."""


def break_limit(level: str) -> float | None:
    """The milliseconds of `--fail-on max-break-ms=0.5`; None for other levels. Raises UsageError where it has none."""
    name, _, value = level.partition("=")
    if name.replace("_", "-") != BREAK_LIMIT:
        return None
    with contextlib.suppress(ValueError):
        if 0 < float(value) < math.inf:
            return float(value)
    raise UsageError(f"--fail-on {level}: give milliseconds above zero, as in {BREAK_LIMIT}=0.5")


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
    rule = next((rule for rule in rules() if finding.rule in rule.ids), None)
    if rule is None or rule.id in _FACTS:
        return {finding.rule}
    claimed = {"graph-break": rule.owns_breaks, "recompile": rule.owns_recompiles}
    broader = (name for name, claims in claimed.items() if claims is not None)
    return {finding.rule, *(name for name in broader if any(map(_FACTS[name].fullmatch, finding.evidence)))}
