"""The index page of a sweep as data, ready for templates that only loop over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dynalyze.render.view.links import Anchors, Link, Shown, shown
from dynalyze.render.view.run import Metric, Tone, value_words
from dynalyze.render.view.sweep_items import (
    ItemLinks,
    ItemView,
    LinesView,
    item_views,
    line_anchors,
    lines_view,
)
from dynalyze.sweep.clusters import summarise
from dynalyze.sweep.records import Status, Sweep
from dynalyze.sweep.summary import Cause, ErrorGroup, Reason, Share, SweepSummary
from dynalyze.text.amounts import count_of, duration
from dynalyze.text.visible import clipped
from dynalyze.words import sweep as words
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


@dataclass(frozen=True)
class CauseView:
    anchor: str
    fact: Cause
    reasons: list[Reason]
    reasons_omitted: int


@dataclass(frozen=True)
class ShareView:
    """A family or a configuration."""

    anchor: str
    fact: Share
    links: ItemLinks


@dataclass(frozen=True)
class ErrorView:
    anchor: str
    fact: ErrorGroup
    links: ItemLinks


Cell = tuple[str, Status] | None
"""The anchor of an item, and how it ended; None where it was not run."""


@dataclass(frozen=True)
class MatrixView:
    """Targets in rows, configurations in columns; those that are the same in all are folded away."""

    columns: list[str]
    differing: list[tuple[str, list[Cell]]]
    same: list[tuple[str, list[Cell]]]
    amount: Shown


@dataclass(frozen=True)
class SweepPage:
    title: str
    target: str
    tone: Tone
    status: str
    headline: str
    rest: str
    notes: list[str]
    metrics: list[Metric]
    lines: LinesView
    causes: list[CauseView]
    causes_amount: Shown
    errors: list[ErrorView]
    errors_amount: Shown
    families: list[ShareView]
    more_families: list[ShareView]
    clean_families: list[ShareView]
    families_amount: Shown
    configurations: list[ShareView]
    matrix: MatrixView
    speeds: list[tuple[str, str]]
    items: list[ItemView]
    counts: Mapping[Status, int]
    noun: str
    many: str
    several_configurations: bool
    measured: bool
    command: str
    environment: list[tuple[str, str]]
    created: str
    version: str


def build_sweep(sweep: Sweep) -> SweepPage:
    """Everything that the page shows, in its order."""
    found, anchors = summarise(sweep), Anchors(SECTIONS)
    links = [Link(words.item_name(row), anchors.claim(f"item-{words.item_name(row)}")) for row in sweep.items]
    places = line_anchors(found, anchors)
    what = words.noun(sweep)
    many = "model" if what == "model" else "target"
    first, *rest = words.verdict_sentences(sweep, found)
    families, families_amount = shown(found.families, MAX_FAMILIES)
    troubled = _shares([share for share in families if share.clean != 1], links, anchors)
    causes, causes_amount = shown(found.causes, MAX_CAUSES)
    errors, errors_amount = shown(found.errors, MAX_ERRORS)
    return SweepPage(
        title=f"{first} · dynalyze sweep",
        target=clipped(" ".join(sweep.command[1:]), 200),
        tone=_tone(found),
        status=_status(found, len(sweep.items)),
        headline=first,
        rest=" ".join(rest),
        notes=[clipped(note, MAX_TEXT) for note in words.notes(sweep)],
        metrics=_metrics(sweep, found),
        lines=lines_view(found, links, places),
        causes=[_cause(cause, anchors) for cause in causes],
        causes_amount=causes_amount,
        errors=[
            ErrorView(anchors.claim(f"error-{group.exception}"), group, ItemLinks.of(group.rows, links))
            for group in errors
        ],
        errors_amount=errors_amount,
        families=troubled[:_OPEN_FAMILIES],
        more_families=troubled[_OPEN_FAMILIES:],
        clean_families=_shares([share for share in families if share.clean == 1], links, anchors),
        families_amount=families_amount,
        configurations=_shares(found.configurations, links, anchors),
        matrix=_matrix(sweep, found, links),
        speeds=[(total.configuration, words.speed_total_words(total)) for total in found.speeds],
        items=item_views(sweep, links, places),
        counts=found.total.counts,
        noun=what,
        many=many,
        several_configurations=len(found.configurations) > 1,
        measured=any(row.speeds for row in sweep.items),
        command=command_line(sweep.command),
        environment=[(name, value_words(value)) for name, value in sweep.environment.items()],
        created=sweep.created,
        version=sweep.dynalyze,
    )


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
    counts = found.total.counts
    metrics = [
        Metric("clean", words.clean_share(found) or "none", "#families" if found.families else ""),
        Metric("with breaks", f"{counts.get('graph_break', 0):,}", "#items"),
        Metric("lines that break", f"{len(found.lines):,}", "#lines"),
        Metric("compile errors", f"{counts.get('compile_error', 0):,}", "#errors" if found.errors else ""),
        Metric(
            "did not reach the compiler",
            f"{len(sweep.items) - found.total.reached:,}",
            "#errors" if found.errors else "",
        ),
        Metric("compiled again", f"{found.recompiling:,}", "#items"),
    ]
    if sweep.seconds:
        metrics.append(Metric(f"with {count_of(sweep.workers, 'worker')}", duration(sweep.seconds)))
    return metrics


def _cause(cause: Cause, anchors: Anchors) -> CauseView:
    some, amount = shown(cause.reasons, MAX_REASONS)
    anchor = anchors.claim(f"cause-{cause.gb_id or cause.gb_type}")
    return CauseView(anchor, cause, [each for each in some if each.text], amount.omitted)


def _shares(shares: Sequence[Share], links: list[Link], anchors: Anchors) -> list[ShareView]:
    return [ShareView(anchors.claim(f"share-{share.name}"), share, ItemLinks.of(share.rows, links)) for share in shares]


def _matrix(sweep: Sweep, found: SweepSummary, links: list[Link]) -> MatrixView:
    some, amount = shown(found.matrix, MAX_MATRIX)
    rows: dict[bool, list[tuple[str, list[Cell]]]] = {True: [], False: []}
    for row in some:
        cells = [None if at is None else (links[at].anchor, sweep.items[at].status) for at in row.cells]
        rows[row.differs].append((row.target, cells))
    return MatrixView([share.name for share in found.configurations], rows[True], rows[False], amount)
