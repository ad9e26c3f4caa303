"""The cards of "Fix these first", in the order in which the report ranks its findings."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.render.highlight import Code, code_at, code_block
from dynalyze.render.view.links import MAX_FINDINGS, Index, Link, Place, Shown, shown
from dynalyze.report import Advice, Finding, Location, Report, Snippet
from dynalyze.text.visible import clipped

MAX_BRIEF = 10
MAX_EVIDENCE = 20
MAX_TEXT = 4000


@dataclass(frozen=True)
class Card:
    """A finding with what the page shows of it. `action` is "" where the title says it."""

    anchor: str
    rank: int
    fact: Finding
    detail: Advice
    title: str
    action: str
    place: Place | None
    code: Code | None
    before: Code | None
    after: Code | None
    config: Code | None
    evidence: list[Link]
    evidence_omitted: Shown


@dataclass(frozen=True)
class FindingsView:
    """`brief` are the first cards once more, for a list that fits on the first screen; none where one card is all."""

    cards: list[Card]
    brief: list[Card]
    amount: Shown


def findings_view(report: Report, links: Index) -> FindingsView:
    """One card a finding."""
    some, amount = shown(report.findings, MAX_FINDINGS)
    snippets = {item.location: item.snippet for item in report.graph_breaks}
    cards = [_card(rank, item, links, snippets) for rank, item in enumerate(some, start=1)]
    return FindingsView(cards, cards[:MAX_BRIEF] if len(cards) > 1 else [], amount)


def _card(rank: int, item: Finding, links: Index, snippets: dict[Location, Snippet | None]) -> Card:
    detail = item.detail or Advice(item.advice)
    example = detail.example
    evidence, amount = shown(item.evidence, MAX_EVIDENCE)
    return Card(
        anchor=links.cards[rank - 1],
        rank=rank,
        fact=item,
        detail=detail,
        title=clipped(item.title, 400),
        action="" if item.advice == item.title else clipped(item.advice, MAX_TEXT),
        place=links.place(item.location) if item.location else None,
        code=code_at(item.location, snippets.get(item.location)) if item.location else None,
        before=code_block(example.before) if example else None,
        after=code_block(example.after) if example else None,
        config=code_block(detail.config) if detail.config else None,
        evidence=[links.fact(identity) for identity in evidence],
        evidence_omitted=amount,
    )
