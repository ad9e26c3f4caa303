"""The cards of "Fix these first", in the order in which the report ranks its findings."""

from __future__ import annotations

from collections.abc import Mapping

from dynalyze.render.highlight import code_at, code_block
from dynalyze.render.view.links import MAX_FINDINGS, Index, first
from dynalyze.report import Advice, Finding, Location, Report, Snippet
from dynalyze.text.visible import clipped

MAX_BRIEF = 10
MAX_EVIDENCE = 20
MAX_TEXT = 4000


class Card:
    """A finding with what the page shows of it. `action` is "" where the title says it."""

    def __init__(self, rank: int, item: Finding, links: Index, snippets: Mapping[Location, Snippet | None]) -> None:
        place, self.detail = item.location, item.detail or Advice(item.advice)
        example = self.detail.example
        self.anchor = links.cards[rank - 1]
        self.rank = rank
        self.fact = item
        self.title = clipped(item.title, 400)
        self.action = "" if item.advice == item.title else clipped(item.advice, MAX_TEXT)
        self.place = links.place(place) if place else None
        self.code = code_at(place, snippets.get(place)) if place else None
        self.before = code_block(example.before) if example else None
        self.after = code_block(example.after) if example else None
        self.config = code_block(self.detail.config) if self.detail.config else None
        self.evidence = first(item.evidence, MAX_EVIDENCE).map(links.fact)


class FindingsView:
    """`brief` are the first cards once more, for a list that fits on the first screen; none where one card is all."""

    def __init__(self, report: Report, links: Index) -> None:
        snippets = {item.location: item.snippet for item in report.graph_breaks}
        ranked = list(enumerate(report.findings, 1))
        self.shown = first(ranked, MAX_FINDINGS).map(lambda each: Card(*each, links, snippets))
        self.brief = self.shown.items[:MAX_BRIEF] if len(self.shown.items) > 1 else []
