"""The index page of a sweep as data, ready for templates that only loop over it."""

from __future__ import annotations

from collections.abc import Sequence

from dynalyze.render.view.links import Anchors, Link, first
from dynalyze.render.view.run import Metric, Tone, value_words
from dynalyze.sweep import words
from dynalyze.sweep.clusters import summarise
from dynalyze.sweep.item_view import ItemLinks, LinesView, item_views, line_anchors
from dynalyze.sweep.records import Cause, Reason, Share, Status, Sweep, SweepSummary
from dynalyze.text.amounts import count_of, duration
from dynalyze.text.visible import clipped
from dynalyze.words.report import command_line

MAX_CAUSES = 60
MAX_REASONS = 12
MAX_FAMILIES = 600
MAX_ERRORS = 100
MAX_MATRIX = 1000
MAX_TEXT = 600

_OPEN_FAMILIES = 15
"""Families whose rows are not folded away: those with most items that are not clean."""

_MOSTLY = 0.5
"""The share of clean items below which the page says that the sweep went badly."""

SECTIONS = (
    "verdict", "lines", "causes", "errors", "families", "configurations", "speeds", "items", "environment",
    "content", "theme", "other-lines", "following-lines", "more-families", "clean-families", "differing",
    "same-in-all", "items-table", "items-none", "items-filter", "items-status", "items-controls", "keys", "help",
)  # fmt: skip
"""The anchors that the templates name themselves; no item may take one."""


Cell = tuple[str, Status] | None
"""The anchor of an item, and how it ended; None where it was not run."""


class SweepPage:
    """Everything that the page shows, in its order."""

    def __init__(self, sweep: Sweep) -> None:
        found, anchors = summarise(sweep), Anchors(SECTIONS)
        links = [Link(words.item_name(row), anchors.claim(f"item-{words.item_name(row)}")) for row in sweep.items]
        places = line_anchors(found, anchors)
        families = first(found.families, MAX_FAMILIES)
        headline, *rest = words.verdict_sentences(sweep, found)
        troubled = _shares([share for share in families.items if share.clean != 1], links, anchors)
        self.fact = sweep
        self.noun = words.noun(sweep)
        self.many = "model" if self.noun == "model" else "target"
        self.title = f"{headline} · dynalyze sweep"
        self.target = clipped(" ".join(sweep.command[1:]), 200)
        self.tone = _tone(found)
        self.status = _status(found, len(sweep.items))
        self.headline = headline
        self.rest = " ".join(rest)
        self.notes = [clipped(note, MAX_TEXT) for note in words.notes(sweep)]
        self.metrics = _metrics(sweep, found)
        self.lines = LinesView(found, links, places)
        self.causes = first(found.causes, MAX_CAUSES).map(lambda cause: _cause(cause, anchors))
        self.errors = first(found.errors, MAX_ERRORS).map(
            lambda group: (anchors.claim(f"error-{group.exception}"), group, ItemLinks(group.rows, links))
        )
        self.families = troubled[:_OPEN_FAMILIES]
        self.more_families = troubled[_OPEN_FAMILIES:]
        self.clean_families = _shares([share for share in families.items if share.clean == 1], links, anchors)
        self.families_total, self.families_omitted = families.total, families.omitted
        self.configurations = _shares(found.configurations, links, anchors)
        self.matrix = MatrixView(sweep, found, links)
        self.speeds = [(total.configuration, words.speed_total_words(total)) for total in found.speeds]
        self.items = item_views(sweep, links, places)
        self.counts = found.total.counts
        self.several_configurations = len(found.configurations) > 1
        self.measured = any(row.speeds for row in sweep.items)
        self.command = command_line(sweep.command)
        self.environment = [(name, value_words(value)) for name, value in sweep.environment.items()]


def _cause(cause: Cause, anchors: Anchors) -> tuple[str, Cause, list[Reason], int]:
    """A cause with its anchor, the reasons that say something, and how many have no room."""
    some = first(cause.reasons, MAX_REASONS)
    anchor = anchors.claim(f"cause-{cause.gb_id or cause.gb_type}")
    return anchor, cause, [each for each in some.items if each.text], some.omitted


def _shares(shares: Sequence[Share], links: Sequence[Link], anchors: Anchors) -> list[tuple[str, Share, ItemLinks]]:
    """Families or configurations, each with its anchor and its items."""
    return [(anchors.claim(f"share-{share.name}"), share, ItemLinks(share.rows, links)) for share in shares]


class MatrixView:
    """Targets in rows, configurations in columns; those that are the same in all are folded away."""

    def __init__(self, sweep: Sweep, found: SweepSummary, links: Sequence[Link]) -> None:
        shown = first(found.matrix, MAX_MATRIX)
        rows: dict[bool, list[tuple[str, list[Cell]]]] = {True: [], False: []}
        for row in shown.items:
            cells = [None if at is None else (links[at].anchor, sweep.items[at].status) for at in row.cells]
            rows[row.differs].append((row.target, cells))
        self.columns = [share.name for share in found.configurations]
        self.differing, self.same = rows[True], rows[False]
        self.omitted = shown.omitted


def _tone(found: SweepSummary) -> Tone:
    counts = found.total.counts
    if set(counts) == {"full_graph"}:
        return "good"
    return "warning" if (found.total.clean or 0) >= _MOSTLY else "bad"


def _status(found: SweepSummary, items: int) -> str:
    clean, reached = words.clean_share(found), found.total.reached
    if not clean:
        return "Nothing reached the compiler"
    return f"{clean} clean" if reached == items else f"{clean} clean of {reached:,} that reached the compiler"


def _metrics(sweep: Sweep, found: SweepSummary) -> list[Metric]:
    counts, errors = found.total.counts, "#errors" if found.errors else ""
    metrics = [
        Metric("clean", words.clean_share(found) or "none", "#families" if found.families else ""),
        Metric("with breaks", f"{counts.get('graph_break', 0):,}", "#items"),
        Metric("lines that break", f"{len(found.lines):,}", "#lines"),
        Metric("compile errors", f"{counts.get('compile_error', 0):,}", errors),
        Metric("did not reach the compiler", f"{len(sweep.items) - found.total.reached:,}", errors),
        Metric("compiled again", f"{found.recompiling:,}", "#items"),
    ]
    if sweep.seconds:
        metrics.append(Metric(f"with {count_of(sweep.workers, 'worker')}", duration(sweep.seconds)))
    return metrics
