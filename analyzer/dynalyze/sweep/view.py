"""The index page of a sweep as data, ready for templates that only loop over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from dynalyze.render.highlight import code_at
from dynalyze.render.view.links import Anchors, Link, Place, first
from dynalyze.render.view.run import Metric, Tone, value_words
from dynalyze.render.words.report import EFFECTS, command_line
from dynalyze.report import Location
from dynalyze.sweep import words
from dynalyze.sweep.clusters import Place as BreakPlace
from dynalyze.sweep.clusters import place_of, summarise
from dynalyze.sweep.records import BrokenLine, Cause, Reason, Row, RowBreak, Share, Status, Sweep, SweepSummary
from dynalyze.text.amounts import count_of, duration
from dynalyze.text.visible import clipped

MAX_CARDS, MAX_LINES, MAX_FOLLOWING = 12, 400, 200
MAX_BREAKS = 25
"""Breaks of one item; its own page has all."""

MAX_NAMES = 10
"""Links to items that are shown before the rest is folded away."""

_MAX_TITLE = 160

# What needs a look first; the clean ones last.
_ORDER: tuple[Status, ...] = (
    "graph_break", "compile_error", "crash", "timeout", "eager_error", "create_error", "full_graph",
)  # fmt: skip
_MARKS: dict[Status, str] = {"full_graph": "compiled", "graph_break": "broken", "compile_error": "failed"}
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


class ItemLinks:
    """Links to the items of these rows: the first few, and those that are folded away."""

    def __init__(self, rows: Sequence[int], links: Sequence[Link]) -> None:
        most = MAX_NAMES if len(rows) > MAX_NAMES + 2 else len(rows)  # A rest of one or two is not worth folding.
        self.first = [links[at] for at in rows[:most]]
        self.more = [links[at] for at in rows[most:]]


def mark_of(status: Status) -> str:
    """The look of a status: "other" for those that say nothing of torch.compile."""
    return _MARKS.get(status, "other")


def item_views(sweep: Sweep, links: Sequence[Link], places: Mapping[BreakPlace, str]) -> list[ItemView]:
    """All items: what breaks first, most breaks first; the clean ones last, by name."""
    ranked = sorted(
        zip(sweep.items, links, strict=True),
        key=lambda each: (_ORDER.index(each[0].status), -each[0].graph_breaks, each[0].target.lower()),
    )
    return [ItemView(row, link, places) for row, link in ranked]


class ItemView:
    """One row. `page` is "" where the item has no report of its own; `rank` sorts by status."""

    def __init__(self, row: Row, link: Link, places: Mapping[BreakPlace, str]) -> None:
        claims = [speed.speedup for speed in row.speeds if speed.speedup is not None]
        self.fact = row
        self.link = link
        self.page = page_link(row.page)
        self.rank = _ORDER.index(row.status)
        self.speedup = max(claims, default=None)
        self.breaks = first(row.breaks, MAX_BREAKS).map(lambda found: BreakLine(found, places))


class BreakLine:
    """A break in the row of its item; `anchor` leads to its line's entry, "" where that is not shown."""

    def __init__(self, found: RowBreak, places: Mapping[BreakPlace, str]) -> None:
        path = found.path or found.file
        self.place = words.place_words(path, found.line)
        self.path = f"{path}:{found.line}"
        self.title = clipped(found.gb_type, _MAX_TITLE)
        self.anchor = places.get(place_of(found), "")


def page_link(page: str | None) -> str:
    """The relative address of a page, whatever the row says; "" for anything else."""
    if not page or "\\" in page:
        return ""
    path = PurePosixPath(page)
    return "" if path.is_absolute() or path.suffix != ".html" else quote(str(path), errors="replace")


def line_anchors(found: SweepSummary, anchors: Anchors) -> dict[BreakPlace, str]:
    """An anchor for each line that the page shows."""
    some = [*found.lines[: MAX_CARDS + MAX_LINES], *found.following[:MAX_FOLLOWING]]
    return {_key(line): anchors.claim(f"line-{line.path.rpartition('/')[2]}-{line.line}") for line in some}


class LinesView:
    """`cards` lead; `rest` is a table of the others. A line that breaks one model only is no card where others are
    shared.
    """

    def __init__(self, found: SweepSummary, links: Sequence[Link], places: Mapping[BreakPlace, str]) -> None:
        def view(line: BrokenLine) -> LineView:
            return LineView(line, links, places)

        shared = [line for line in found.lines if len(line.targets) > 1]
        leading = (shared or list(found.lines))[:MAX_CARDS]
        self.total = len(found.lines)
        self.cards = [view(line) for line in leading]
        self.rest = first(found.lines[len(leading) :], MAX_LINES).map(view)
        self.following = first(found.following, MAX_FOLLOWING).map(view)


class LineView:
    """One line of code. `effect` is the worst that its breaks did, "" where none is known."""

    def __init__(self, line: BrokenLine, links: Sequence[Link], places: Mapping[BreakPlace, str]) -> None:
        self.anchor = places.get(_key(line), "")
        self.fact = line
        self.place = Place(words.place_words(line.path, line.line), f"{line.path}:{line.line}", line.function)
        self.code = code_at(Location(line.path, line.line, None, line.function, line.code), None)
        self.effect = next((effect for effect in EFFECTS if effect in line.effects), "")
        self.links = ItemLinks(line.rows, links)


def _key(line: BrokenLine) -> BreakPlace:
    return line.path, line.line, line.gb_type
