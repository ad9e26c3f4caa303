"""The index page of a sweep as data, ready for templates that only loop over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynalyze.render.view.links import Anchors, Shown, shown
from dynalyze.render.view.run import Metric, Tone, value_words
from dynalyze.render.view.sweep_items import (
    BAR_WIDTH,
    Chip,
    ItemLink,
    ItemLinks,
    ItemView,
    LinesView,
    chips,
    item_views,
    line_anchors,
    lines_view,
    mark_of,
)
from dynalyze.sweep.clusters import summarise
from dynalyze.sweep.records import Status, Sweep
from dynalyze.sweep.summary import Cause, ErrorGroup, Share, SweepSummary
from dynalyze.text.amounts import count_of, duration, percent
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
    title: str
    gb_id: str
    models: str
    lines: str
    breaks: str
    follows: bool
    reasons: list[tuple[str, str]]
    reasons_omitted: int


@dataclass(frozen=True)
class ShareView:
    """A family or a configuration: its counts in words, the share of clean items, and a bar as long as that."""

    anchor: str
    name: str
    items: str
    clean: str
    clean_value: str
    bar: str
    counts: list[tuple[str, str]]
    links: ItemLinks


@dataclass(frozen=True)
class ErrorView:
    anchor: str
    mark: str
    status: str
    exception: str
    place: str
    message: str
    others: str
    items: str
    links: ItemLinks


@dataclass(frozen=True)
class CellView:
    anchor: str
    mark: str
    text: str


@dataclass(frozen=True)
class MatrixView:
    """Targets in rows, configurations in columns; those that are the same in all are folded away."""

    columns: list[str]
    differing: list[tuple[str, list[CellView]]]
    same: list[tuple[str, list[CellView]]]
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
    chips: list[Chip]
    noun: str
    hit: str
    several_configurations: bool
    measured: bool
    command: str
    environment: list[tuple[str, str]]
    created: str
    version: str


def build_sweep(sweep: Sweep) -> SweepPage:
    """Everything that the page shows, in its order."""
    found, anchors = summarise(sweep), Anchors(SECTIONS)
    links = [ItemLink(words.item_name(row), anchors.claim(f"item-{words.item_name(row)}")) for row in sweep.items]
    places = line_anchors(found, anchors)
    what = words.noun(sweep)
    many = "model" if what == "model" else "target"
    first, *rest = words.verdict_sentences(sweep, found)
    families, families_amount = shown(found.families, MAX_FAMILIES)
    troubled = _shares([share for share in families if share.clean != 1], links, what, anchors)
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
        lines=lines_view(found, links, places, many),
        causes=[_cause(cause, many, anchors) for cause in causes],
        causes_amount=causes_amount,
        errors=[_error(group, links, what, anchors.claim(f"error-{group.exception}")) for group in errors],
        errors_amount=errors_amount,
        families=troubled[:_OPEN_FAMILIES],
        more_families=troubled[_OPEN_FAMILIES:],
        clean_families=_shares([share for share in families if share.clean == 1], links, what, anchors),
        families_amount=families_amount,
        configurations=_shares(found.configurations, links, what, anchors),
        matrix=_matrix(sweep, found, links),
        speeds=[(total.configuration, words.speed_total_words(total)) for total in found.speeds],
        items=item_views(sweep, links, places),
        chips=chips(found),
        noun=what,
        hit=f"{many.capitalize()}s",
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


def _cause(cause: Cause, what: str, anchors: Anchors) -> CauseView:
    some, amount = shown(cause.reasons, MAX_REASONS)
    return CauseView(
        anchor=anchors.claim(f"cause-{cause.gb_id or cause.gb_type}"),
        title=clipped(cause.gb_type, 300) or "Graph break",
        gb_id=cause.gb_id or "",
        models=f"{len(cause.targets):,}",
        lines=f"{cause.lines:,}",
        breaks=f"{cause.breaks:,}",
        follows=cause.follows,
        reasons=[(clipped(each.text, MAX_TEXT), count_of(each.targets, what)) for each in some if each.text],
        reasons_omitted=amount.omitted,
    )


def _shares(shares: Sequence[Share], links: list[ItemLink], what: str, anchors: Anchors) -> list[ShareView]:
    return [_share(share, links, what, anchors.claim(f"share-{share.name}")) for share in shares]


def _share(share: Share, links: list[ItemLink], what: str, anchor: str) -> ShareView:
    clean = share.clean
    return ShareView(
        anchor=anchor,
        name=share.name,
        items=count_of(len(share.rows), what),
        clean="" if clean is None else percent(clean),
        clean_value="-1" if clean is None else f"{clean:.4f}",
        bar="" if clean is None else f"{BAR_WIDTH * clean:.1f}",
        counts=[(mark_of(status), _counted(number, status)) for status, number in share.counts.items()],
        links=ItemLinks.of(share.rows, links),
    )


def _counted(number: int, status: Status) -> str:
    return f"{number:,} {words.status_words(status)}"


def _error(group: ErrorGroup, links: list[ItemLink], what: str, anchor: str) -> ErrorView:
    others = group.messages - 1
    return ErrorView(
        anchor=anchor,
        mark=mark_of(group.status),
        status=words.status_words(group.status),
        exception=group.exception,
        place=group.place,
        message=clipped(group.message, MAX_TEXT),
        others=f"and {count_of(others, 'other message')} from there" if others else "",
        items=count_of(len(group.rows), what),
        links=ItemLinks.of(group.rows, links),
    )


def _matrix(sweep: Sweep, found: SweepSummary, links: list[ItemLink]) -> MatrixView:
    some, amount = shown(found.matrix, MAX_MATRIX)
    rows: dict[bool, list[tuple[str, list[CellView]]]] = {True: [], False: []}
    for row in some:
        cells = [_cell(None if at is None else sweep.items[at].status, at, links) for at in row.cells]
        rows[row.differs].append((row.target, cells))
    return MatrixView([share.name for share in found.configurations], rows[True], rows[False], amount)


def _cell(status: Status | None, at: int | None, links: list[ItemLink]) -> CellView:
    if status is None or at is None:
        return CellView("", "", "")
    return CellView(links[at].anchor, mark_of(status), words.status_words(status))
