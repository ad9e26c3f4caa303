"""The cards of "Fix these first", in the order in which the report ranks its findings."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.render.highlight import Code, code_at, code_block
from dynalyze.render.view.links import MAX_FINDINGS, Index, Link, Place, Shown, safe_url, shown
from dynalyze.report import Advice, Finding, Location, Report, Severity, Snippet
from dynalyze.text.visible import clipped
from dynalyze.words.report import duration, severity_words

MAX_BRIEF = 10
MAX_EVIDENCE = 20
MAX_TEXT = 4000
UNFOLDED = 3
"""Cards whose example stands open; a click opens the others, so that a long list can be looked through."""


@dataclass(frozen=True)
class FindingView:
    anchor: str
    rank: int
    rule: str
    severity: Severity
    severity_words: str
    title: str
    action: str
    why: str
    place: Place | None
    code: Code | None
    before: Code | None
    after: Code | None
    config: Code | None
    config_note: str
    unfolded: bool
    url: str
    impact: str
    evidence: list[Link]
    evidence_omitted: Shown


@dataclass(frozen=True)
class FindingsView:
    """`brief` are the first cards once more, for a list that fits on the first screen; none where one card is all."""

    cards: list[FindingView]
    brief: list[FindingView]
    amount: Shown


def findings_view(report: Report, links: Index) -> FindingsView:
    """One card a finding."""
    some, amount = shown(report.findings, MAX_FINDINGS)
    snippets = {item.location: item.snippet for item in report.graph_breaks}
    cards = [_card(rank, item, links, snippets) for rank, item in enumerate(some, start=1)]
    return FindingsView(cards, cards[:MAX_BRIEF] if len(cards) > 1 else [], amount)


def _card(rank: int, item: Finding, links: Index, snippets: dict[Location, Snippet | None]) -> FindingView:
    detail = item.detail or Advice(item.advice)
    example = detail.example
    evidence, amount = shown(item.evidence, MAX_EVIDENCE)
    return FindingView(
        anchor=links.cards[rank - 1],
        rank=rank,
        rule=item.rule,
        severity=item.severity,
        severity_words=severity_words(item.severity),
        title=clipped(item.title, 400),
        action="" if item.advice == item.title else clipped(item.advice, MAX_TEXT),
        why=clipped(detail.why, MAX_TEXT),
        place=links.place(item.location) if item.location else None,
        code=code_at(item.location, snippets.get(item.location)) if item.location else None,
        before=code_block(example.before) if example else None,
        after=code_block(example.after) if example else None,
        config=code_block(detail.config) if detail.config else None,
        config_note=detail.config_note,
        unfolded=rank <= UNFOLDED,
        url=safe_url(detail.link),
        impact=_impact(item),
        evidence=[links.fact(identity) for identity in evidence],
        evidence_omitted=amount,
    )


def _impact(item: Finding) -> str:
    """A measured cost in words; never an estimate."""
    if item.impact is None:
        return "Impact unknown"
    return f"{duration(item.impact.seconds)} {item.impact.what}".strip()
