"""The index page of a sweep, and the page of two compared: data that the templates only loop over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from dynalyze.render.comparison_text import document
from dynalyze.render.highlight import code_at
from dynalyze.render.html import page
from dynalyze.render.text.bench import capital
from dynalyze.render.text.comparison import drawn
from dynalyze.render.text.report import command_line
from dynalyze.render.view.comparison import difference_rows
from dynalyze.render.view.links import Anchors, Link, Listed, first
from dynalyze.render.view.run import Metric, Tone, value_words
from dynalyze.report import Location
from dynalyze.sweep import words
from dynalyze.sweep.clusters import BrokenLine, SweepSummary, summarise
from dynalyze.sweep.compare import SCHEMA_VERSION, ItemChange, LineChange, SweepComparison
from dynalyze.sweep.records import Row, RowBreak, Status, Sweep
from dynalyze.text.amounts import count_of, duration
from dynalyze.text.escape import clipped

MAX_CARDS, MAX_LINES, MAX_FOLLOWING = 12, 400, 200
MAX_CAUSES, MAX_ERRORS = 60, 100
MAX_MATRIX = 1000
MAX_BREAKS, MAX_NAMES = 25, 10
"""Of one item, and links before the rest is folded away."""

MAX_CHANGED_LINES, MAX_CHANGED_ITEMS, MAX_CHANGED_NAMES, MAX_CHANGED_BREAKS = 300, 1000, 40, 20
MAX_TEXT = 600
_MOSTLY = 0.5
"""The share of clean items below which the page says that the sweep went badly."""

# What needs a look first; the clean ones last.
_ORDER: tuple[Status, ...] = (
    "graph_break", "compile_error", "crash", "timeout", "eager_error", "create_error", "full_graph",
)  # fmt: skip
_MARKS: dict[Status, str] = {"full_graph": "compiled", "graph_break": "broken", "compile_error": "failed"}
_FILTERS: dict[str, Callable[..., Any]] = {
    "ending_words": words.status_words,
    "item_name": words.item_name,
    "place_words": words.place_words,
    "speed_words": words.speed_words,
    # Others say nothing of torch.compile.
    "status_mark": lambda status: _MARKS.get(status, "other"),
}


def render_sweep(sweep: Sweep) -> str:
    """The index; its links to reports are relative to the sweep's folder."""
    return page("sweep.html.jinja", SweepPage(sweep), more=("tables", "sweep"), filters=_FILTERS)


def render_diff(comparison: SweepComparison) -> str:
    return page("sweep_diff.html.jinja", SweepDiffPage(comparison), more=("tables",), filters=_FILTERS)


def diff_json(comparison: SweepComparison) -> str:
    return document(comparison, SCHEMA_VERSION, words.diff_verdict(comparison))


class SweepPage:
    """Everything that the index shows, in its order; `links` lead to the items, by position."""

    def __init__(self, sweep: Sweep) -> None:
        found, self._anchors = summarise(sweep), Anchors()
        names = [words.item_name(row).removeprefix("hf:") for row in sweep.items]
        self.links = [Link(name, self._anchors.claim(f"item-{name}")) for name in names]
        shown = [*found.lines[: MAX_CARDS + MAX_LINES], *found.following[:MAX_FOLLOWING]]
        self._places = {line.at: self._anchors.claim(_line_anchor(line)) for line in shown}
        self.headline, *rest = words.verdict_sentences(sweep, found)
        self.rest = " ".join(rest)
        self.fact = sweep
        self.noun = words.noun(sweep)
        self.many = words.target_noun(sweep)
        self.title = f"{self.headline} · dynalyze sweep"
        self.target = clipped(" ".join(sweep.command[1:]), 200)
        self.tone, self.status = _verdict(found, len(sweep.items))
        self.notes = [clipped(note, MAX_TEXT) for note in words.notes(sweep)]
        self.metrics = _metrics(sweep, found)
        self.cards = [self._line(line) for line in found.leading[:MAX_CARDS]]
        self.lines_total = len(found.lines)
        self.other_lines = first(found.lines[len(self.cards) :], MAX_LINES).map(self._line)
        self.following = first(found.following, MAX_FOLLOWING).map(self._line)
        self.causes = first(found.causes, MAX_CAUSES).map(
            lambda cause: (self._anchors.claim(f"cause-{cause.gb_id or cause.gb_type}"), cause)
        )
        self.errors = first(found.errors, MAX_ERRORS).map(
            lambda group: (self._anchors.claim(f"error-{group.exception}"), group, self._names(group.rows))
        )
        self.configurations = [(self._anchors.claim(f"share-{share.name}"), share) for share in found.configurations]
        self.differing = first(found.matrix, MAX_MATRIX)
        self.speeds = [(total.configuration, words.speed_total_words(total)) for total in found.speeds]
        self.items = sorted(map(self._item, sweep.items, self.links), key=lambda item: item[0])
        self.counts = found.total.counts
        self.several_configurations = len(found.configurations) > 1
        self.measured = any(row.speeds for row in sweep.items)
        self.command = command_line(sweep.command)
        self.environment = [(name, value_words(value)) for name, value in sweep.environment.items()]

    def _names(self, rows: Sequence[int]) -> tuple[list[Link], list[Link]]:
        """Links to the items of these rows: the first few, and those that are folded away."""
        most = MAX_NAMES if len(rows) > MAX_NAMES + 2 else len(rows)  # A rest of one or two is not worth folding.
        links = [self.links[at] for at in rows]
        return links[:most], links[most:]

    def _line(self, line: BrokenLine) -> tuple[Any, ...]:
        code = code_at(Location(line.path, line.line, None, line.function, line.code), None)
        return self._places.get(line.at, ""), line, code, self._names(line.rows)

    def _item(self, row: Row, link: Link) -> tuple[Any, ...]:
        """A row with its rank (most breaks first, clean ones last), its link, the address of its page, its best
        speedup, and its breaks.
        """
        claims = [speed.speedup for speed in row.speeds if speed.speedup is not None]
        rank = _ORDER.index(row.status), -row.graph_breaks, row.target.lower()
        breaks = first(row.breaks, MAX_BREAKS).map(lambda found: (found, self._places.get(found.at, "")))
        return rank, row, link, page_link(row.page), max(claims, default=None), breaks


def _line_anchor(line: BrokenLine | LineChange) -> str:
    return f"line-{line.path.rpartition('/')[2]}-{line.line}"


def _verdict(found: SweepSummary, items: int) -> tuple[Tone, str]:
    clean, reached = words.clean_share(found), found.total.reached
    tone: Tone = "warning" if (found.total.clean or 0) >= _MOSTLY else "bad"
    if not clean:
        return tone, "Nothing reached the compiler"
    if reached != items:
        return tone, f"{clean} clean of {reached:,} that reached the compiler"
    return "good" if found.total.clean == 1 else tone, f"{clean} clean"


def _metrics(sweep: Sweep, found: SweepSummary) -> list[Metric]:
    counts, errors = found.total.counts, "#errors" if found.errors else ""
    took = [Metric(f"with {count_of(sweep.workers, 'worker')}", duration(sweep.seconds))] if sweep.seconds else []
    return [
        Metric("clean", words.clean_share(found) or "none", "#items"),
        Metric("with breaks", f"{counts.get('graph_break', 0):,}", "#items"),
        Metric("lines that break", f"{len(found.lines):,}", "#lines"),
        Metric("compile errors", f"{counts.get('compile_error', 0):,}", errors),
        Metric("did not reach the compiler", f"{len(sweep.items) - found.total.reached:,}", errors),
        Metric("compiled again", f"{found.recompiling:,}", "#items"),
        *took,
    ]


def page_link(page: str | None) -> str:
    """The page as a relative address; "" for anything that is not one."""
    if not page or "\\" in page:
        return ""
    path = PurePosixPath(page)
    return "" if path.is_absolute() or path.suffix != ".html" else quote(str(path), errors="replace")


class SweepDiffPage:
    def __init__(self, comparison: SweepComparison) -> None:
        before, after, worse = comparison.before, comparison.after, len(comparison.regressions)
        self._anchors, self._items = Anchors(), dict[str, str]()
        changed = {way: [each for each in comparison.changes if each.direction == way] for way in words.DIRECTIONS}
        self.compared = bool(comparison.changes or comparison.unchanged)
        self.items = [self._table(f"items-{way}", words.DIRECTIONS[way], some) for way, some in changed.items() if some]
        self.alone = [
            self._table(anchor, name, changes)
            for anchor, name, changes in (
                ("only-before", "In the first sweep alone", comparison.only_before),
                ("only-after", "In the second sweep alone", comparison.only_after),
            )
            if changes
        ]
        self.lines = [
            (anchor, name, lead, first(lines, MAX_CHANGED_LINES).map(self._line))
            for anchor, name, lead, lines in (
                ("new-lines", "New", "They did not break before in these items.", comparison.new_breaks),
                ("fixed-lines", "Fixed", "They broke before in these items, and do not now.", comparison.gone_breaks),
            )
            if lines
        ]
        self.title = "Two sweeps · dynalyze diff"
        self.tone = "good" if not worse and self.compared else "warning"
        self.status = count_of(worse, "regression") if worse else "No regression"
        if not self.compared:
            self.status = "Nothing to compare"
        self.headline = drawn(capital(words.diff_verdict(comparison)))
        self.notes = words.diff_notes(comparison)
        self.metrics = [
            Metric("items worse", f"{len(changed['worse']):,}", "#items"),
            Metric("items better", f"{len(changed['better']):,}", "#items"),
            Metric("as before", f"{comparison.unchanged:,}"),
            Metric("new breaking lines", f"{len(comparison.new_breaks):,}", "#lines"),
            Metric("fixed lines", f"{len(comparison.gone_breaks):,}", "#lines"),
        ]
        self.differences = difference_rows(comparison.differences, MAX_TEXT)
        runs = (
            ("Command", command_line(before.command), command_line(after.command)),
            ("Items", f"{before.items:,} of {before.planned:,}", f"{after.items:,} of {after.planned:,}"),
            ("Clean", f"{before.clean:,} of {before.reached:,}", f"{after.clean:,} of {after.reached:,}"),
            ("Recorded", before.created, after.created),
            ("By dynalyze", before.dynalyze, after.dynalyze),
        )
        self.runs = [(name, clipped(one, MAX_TEXT), clipped(other, MAX_TEXT)) for name, one, other in runs]

    def _table(self, anchor: str, name: str, changes: Sequence[ItemChange]) -> tuple[str, str, Listed[Any]]:
        return anchor, name, first(changes, MAX_CHANGED_ITEMS).map(self._item)

    def _item(self, change: ItemChange) -> tuple[str, ItemChange, list[str], list[str]]:
        anchor = self._anchors.claim(f"item-{words.item_name(change).removeprefix('hf:')}")
        self._items.setdefault(change.target, anchor)  # Of several configurations the first stands for the target.
        return anchor, change, _breaks(change.new), _breaks(change.gone)

    def _line(self, line: LineChange) -> tuple[str, LineChange, Listed[Link]]:
        links = first(line.targets, MAX_CHANGED_NAMES).map(lambda target: Link(target, self._items.get(target, "")))
        return self._anchors.claim(_line_anchor(line)), line, links


def _breaks(breaks: Sequence[RowBreak]) -> list[str]:
    some = first(breaks, MAX_CHANGED_BREAKS)
    shown = [f"{words.place_words(each.place, each.line)} {clipped(each.gb_type, 200)}" for each in some.items]
    return [*shown, f"{some.omitted:,} more"] if some.omitted else shown
