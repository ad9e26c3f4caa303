"""Which findings an output shows: alike ones as one card, those that count in CI, the user's own line of each."""

from __future__ import annotations

import re

import msgspec

from dynalyze.facts.fingerprints import fingerprints
from dynalyze.render.text.report import only_measured
from dynalyze.report import Finding, GraphBreak, Impact, Location, Report, seconds_later
from dynalyze.report.costs import costliest_first
from dynalyze.text.amounts import count_of, listed

_LISTS = re.compile(r'(?<=dynamic_sources = ")[^"]*')
_MOST_HEADS = 3


def as_cards(report: Report) -> Report:
    """The report with alike findings put together; each card stands where the first of them does, or by its cost.

    The findings themselves stay one a break and one a change: a policy waives them, and a baseline knows them, one by
    one.
    """
    effects = {found.id: found.effect for found in report.graph_breaks}
    cards: dict[object, list[Finding]] = {}
    for number, finding in enumerate(report.findings):
        key: object = number
        if finding.rule == "graph-break":
            done = [effects.get(name) for name in finding.evidence]
            key = repr([done, finding.severity, finding.title, finding.advice, finding.detail])
        elif finding.rule == "recompile":
            config = finding.detail.config if finding.detail is not None else ""
            key = repr([finding.severity, finding.advice, finding.after, _LISTS.sub("", config)])
        cards.setdefault(key, []).append(finding)
    return msgspec.structs.replace(report, findings=costliest_first(report, list(map(_card, cards.values()))))


def _card(alike: list[Finding]) -> Finding:
    """One finding for several that ask for the same."""
    first, *others = alike
    for each in others:
        evidence = list(dict.fromkeys([*first.evidence, *each.evidence]))
        first = msgspec.structs.replace(first, evidence=evidence, impact=_together(first.impact, each.impact))
    if not others or first.rule != "recompile":
        return first
    heads = listed([each.title.partition(": ")[0] for each in others], _MOST_HEADS)
    action, detail = f"{first.advice} That is for {count_of(len(others), 'more change')} too: {heads}.", first.detail
    if detail is not None:
        lists = [found[0] for each in alike if each.detail is not None and (found := _LISTS.search(each.detail.config))]
        names = ",".join(dict.fromkeys(",".join(lists).split(",")))
        detail = msgspec.structs.replace(
            detail, action=action, config=_LISTS.sub(lambda _: names, detail.config) if lists else detail.config
        )
    return msgspec.structs.replace(first, advice=action, detail=detail)


def _together(one: Impact | None, other: Impact | None) -> Impact | None:
    """The cost of two findings; that of one where nobody measured the other."""
    if one is None or other is None:
        return one or other
    share = _sum(one.share, other.share)
    ms, spent = _sum(one.ms_per_call, other.ms_per_call), _sum(one.compile_seconds, other.compile_seconds)
    left = other.without_ms if one.without_ms is None else one.without_ms
    if one.without_ms is not None and other.without_ms is not None:
        left = max(0.0, one.without_ms - (other.ms_per_call or 0.0))
    return Impact(
        ms_per_call=ms, share=None if share is None else min(1.0, share), compile_seconds=spent,
        what=one.what or other.what, without_ms=left, calls=one.calls or other.calls, seconds=seconds_later(spent, ms),
    )  # fmt: skip


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
# The models of transformers are what its users look at; the rest of it are helpers that many models share.
_MODEL = re.compile(r"[/\\]transformers[/\\]models[/\\]|[/\\]transformers_modules[/\\]")


def own_caller(found: GraphBreak) -> Location | None:
    """The innermost line outside of libraries' helpers that led to a break inside of one; None for other breaks."""
    if _is_own(found.location):
        return None
    return next((line for line in reversed(found.stack) if _is_own(line)), None)


def _is_own(line: Location) -> bool:
    return _INSTALLED.search(line.file) is None or _MODEL.search(line.file) is not None


ENDED_WELL = ("complete", "nothing_compiled")
"""Statuses of a run in which everything that would be compiled was."""


def waived(report: Report) -> dict[str, str]:
    """The reason for each finding that the policy lets pass, by its fingerprint."""
    waivers = report.policy.waivers if report.policy is not None else []
    return {found: waiver.reason for waiver in waivers if not waiver.expired for found in waiver.findings}


def is_known(report: Report, found: str) -> bool:
    """Whether the baseline holds a finding of this fingerprint; without a baseline nothing is known."""
    policy = report.policy
    return policy is not None and bool(policy.baseline) and found not in policy.new


def counting(report: Report) -> list[Finding]:
    """The findings that are neither waived nor in the baseline."""
    passed = waived(report)
    pairs = zip(report.findings, fingerprints(report), strict=True)
    return [finding for finding, found in pairs if found not in passed and not is_known(report, found)]


def listened_to_the_end(report: Report) -> bool:
    """Whether a rule that found nothing found that nothing is there."""
    return report.outcome.status == "complete" and not only_measured(report)
