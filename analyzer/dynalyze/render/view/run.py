"""What the page says about the run as a whole: verdict, what to fix first, metrics, checks, how to run it again."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from dynalyze.render.highlight import code_at, code_block
from dynalyze.render.text import bench as words_bench
from dynalyze.render.text import fixes as words_fixes
from dynalyze.render.text.report import (
    STATUS_WORDS,
    command_words,
    compile_time,
    duration,
    only_measured,
    order_words,
    short_cost,
    totals,
    tried_words,
    trust_notes,
    verdict_sentences,
)
from dynalyze.render.view.links import MAX_BREAKS, MAX_FINDINGS, Index, Listed, first
from dynalyze.report import Advice, Finding, GraphBreak, Report
from dynalyze.report.document import to_json
from dynalyze.text.escape import clipped

MAX_MESSAGE = 20_000
MAX_ERRORS = 50
MAX_VALUE = 2000
MAX_EMBEDDED_JSON = 2_000_000
"""Characters of compressed report JSON that a page carries with it; a larger report is for the --json option."""

Tone = Literal["good", "warning", "bad"]


class Metric(NamedTuple):
    label: str
    value: str
    href: str = ""


class VerdictView:
    def __init__(self, report: Report) -> None:
        message = report.outcome.message
        self.tone = _tone(report)
        self.status = STATUS_WORDS[report.outcome.status]
        if report.fixed is not None:
            self.headline = words_fixes.verdict(report, report.fixed)
            rest = [words_fixes.gain(report.fixed.evidence), *words_fixes.of_whole(report.fixed)]
        else:
            self.headline, *rest = [*verdict_sentences(report), compile_time(report)]
        self.rest = " ".join(filter(None, rest))
        if report.outcome.status in ("complete", "nothing_compiled"):
            if report.fixed is not None:
                self.status, verified = words_fixes.standing(report)
                self.tone = "good" if verified else "warning"
            elif report.plan is not None and not report.plan.points:
                self.status, self.tone = "No plan", "warning"
        self.message = "" if message == self.headline else clipped(message, MAX_MESSAGE)
        self.notes = [*words_bench.trust_notes(report.measurements), *trust_notes(report)]
        self.errors = first(report.capture.listener_errors, MAX_ERRORS).map(lambda error: clipped(error, MAX_MESSAGE))


def _tone(report: Report) -> Tone:
    counted = totals(report)
    if report.outcome.status != "complete":
        return "bad"
    if only_measured(report):
        return "good" if words_bench.all_well(report.measurements, report.accuracy) else "warning"
    troubles = counted.breaks or counted.eager or counted.failed or counted.recompiles or counted.limits
    return "warning" if troubles or report.findings else "good"


def metrics_view(report: Report) -> list[Metric]:
    """The numbers that are known. A number that was not recorded is left out, not shown as 0."""
    if only_measured(report) or (report.outcome.failed_stage is not None and not report.compilations):
        return []
    counted = totals(report)
    metrics = [
        Metric("graph breaks", f"{counted.breaks:,}", "#fixes"),
        Metric("recompiles", f"{counted.recompiles:,}", "#recompiles" if report.recompiles else ""),
        Metric("frames left in eager", f"{counted.eager + counted.limits:,}", "#compilations"),
    ]
    if not report.measurements:  # The numbers of a measurement need their room on the first screen.
        metrics.insert(2, Metric("frames compiled", f"{counted.compiled:,}", "#compilations"))
    if report.graphs and not report.measurements:
        metrics.append(Metric("graphs", f"{len(report.graphs):,}", "#graphs"))
    if counted.seconds is not None:
        metrics.append(Metric("spent compiling", duration(counted.seconds), "#compilations"))
    return metrics


class RunView:
    """How to run it again, where it ran, and the report itself; `json_omitted` says why that is not here."""

    def __init__(self, report: Report) -> None:
        # Gzipped, in base64: a tenth of its size, and nothing in it can end its element.
        document = base64.b64encode(gzip.compress(to_json(report).encode(), mtime=0)).decode()
        fits = len(document) <= MAX_EMBEDDED_JSON
        self.command = command_words(report.command) if report.command or report.capture.mode != "block" else []
        self.environment = [(name, value_words(value)) for name, value in report.environment.items()]
        self.json = document if fits else ""
        self.json_omitted = "" if fits else f"{len(document) / 1e6:.0f} MB even when compressed"


def value_words(value: Any) -> str:
    """A value of the environment for people; whatever is nested deeper stays JSON."""
    if value is None or value == {} or value == []:
        return "none"
    if isinstance(value, dict):
        return clipped(", ".join(f"{name} {value_words(item)}" for name, item in value.items()), MAX_VALUE)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clipped(text, MAX_VALUE)


MAX_BRIEF = 10
MAX_OPEN = 3
MAX_UNFOLDED = 3
MAX_EVIDENCE = 20
MAX_TEXT = 4000


class Card:
    """A finding with what the page shows of it, its graph breaks too: each break stands in one card.

    `action` is "" where the title says it, `tried` where nothing was, and `fix`, the command that tries changes, where
    it tries none. `breaks` stand open, `more_breaks` are folded away; `evidence` are the other facts.
    """

    def __init__(self, rank: int, item: Finding, links: Index, breaks: Sequence[GraphBreak], report: Report) -> None:
        place, self.detail = item.location, item.detail or Advice(item.advice)
        example, own = self.detail.example, {found.id for found in breaks}
        self.anchor = links.cards[rank - 1]
        self.rank = rank
        self.fact = item
        self.breaks, self.more_breaks = breaks[:MAX_UNFOLDED], breaks[MAX_UNFOLDED:]
        self.cost = short_cost(item.impact)
        self.tried = tried_words(report, item)
        self.fix = words_fixes.fix_command(report, item.evidence) if item.rule == "graph-break" else ""
        self.title = clipped(item.title, 400)
        self.action = "" if item.advice == item.title else clipped(item.advice, MAX_TEXT)
        self.place = links.place(place) if place else None
        self.code = code_at(place, None) if place and not breaks else None
        self.before = code_block(example.before) if example else None
        self.after = code_block(example.after) if example else None
        self.config = code_block(self.detail.config) if self.detail.config else None
        rest = [name for name in item.evidence if name not in own]
        self.evidence = first(rest, MAX_EVIDENCE).map(links.fact)


class FindingsView:
    """The findings as cards: the first ten, `more`, and those that a verified change has `ended`. `open`: they are so
    few that all stand open.

    `fix` is the command that tries changes for all of them; "" where there is none. `order` says what they go by.
    `breaks` are the graph breaks that are in no card.
    """

    def __init__(self, report: Report, links: Index) -> None:
        homes = _homes(report)
        inside: dict[int, list[GraphBreak]] = {}
        shown = first(report.graph_breaks, MAX_BREAKS)
        for found in shown.items:
            inside.setdefault(homes.get(found.id, 0), []).append(found)
        ranked = list(enumerate(report.findings, 1))
        self.shown = first(ranked, MAX_FINDINGS).map(lambda each: Card(*each, links, inside.get(each[0], []), report))
        gone = words_fixes.ended(report)
        facts = {each.id for each in report.graph_breaks} | {each.id for each in report.recompiles}
        about = [(card, facts.intersection(card.fact.evidence)) for card in self.shown.items]
        self.ended = [card for card, those in about if those and those <= gone]
        self.left = [card for card in self.shown.items if card not in self.ended]
        self.count = self.shown.total - len(self.ended)
        self.first, self.more = self.left[:MAX_BRIEF], self.left[MAX_BRIEF:]
        self.open = len(self.left) <= MAX_OPEN
        self.breaks = Listed(inside.get(0, []), len(inside.get(0, [])) + shown.omitted)
        self.fix = words_fixes.fix_command(report)
        self.order = order_words(report)


def _homes(report: Report) -> dict[str, int]:
    """The rank of the finding that each graph break stands with: the first about its very line, else the first."""
    places = {found.id: found.location.at for found in report.graph_breaks}
    ranked = [
        (finding.location is not None and finding.location.at == places.get(name), -rank, name)
        for rank, finding in enumerate(report.findings[:MAX_FINDINGS], 1)
        for name in finding.evidence
    ]
    return {name: -rank for _, rank, name in sorted(ranked)}
