"""The program line by line: what was compiled, where a graph broke, what runs in eager, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from dynalyze.render.highlight import Caret, highlighted_lines
from dynalyze.render.text.report import short_path
from dynalyze.render.view.links import Anchors, Index, Link, Listed, first
from dynalyze.render.view.run import Card
from dynalyze.report import LineKey, Report
from dynalyze.report.code import FunctionStatus, LineState, SourceFile, SourceLine
from dynalyze.text.amounts import count_of

_MAX_OPEN = 300
_MAX_LINKS = 100

_STATES: dict[LineState, str] = {
    "compiled": "compiled", "broken": "graph break", "eager": "runs in eager", "silent": "",
}  # fmt: skip
_FUNCTIONS: dict[FunctionStatus, str] = {
    "compiled": "compiled", "broken": "compiled in parts", "eager": "runs in eager", "failed": "compile failed",
    "inlined": "compiled within its callers",
}  # fmt: skip


class SourcesView:
    """Every file of which lines are known, as far as the page has room; what is broken stands open."""

    def __init__(self, report: Report, links: Index, anchors: Anchors, cards: Sequence[Card]) -> None:
        known = _Known(report, links, cards)
        self.files: list[SourceView] = []
        left_open = _MAX_OPEN
        for file in report.sources:
            lines = [line for line in file.lines if (file.path, line.line) in links.lines]
            if not lines:
                continue
            stands_open = any(line.breaks for line in lines) and len(lines) <= left_open
            left_open -= len(lines) if stands_open else 0
            self.files.append(SourceView(file, lines, anchors, known, stands_open))
        every = sum(len(file.lines) + file.omitted for file in report.sources)
        self.omitted = every - sum(len(each.rows) for each in self.files)


class _Known:
    """What other parts of the page know of lines: the columns of the first break of each, the findings that are about
    it, and how many kernels of each graph it became.
    """

    def __init__(self, report: Report, links: Index, cards: Sequence[Card]) -> None:
        self.links = links
        self.carets: dict[LineKey, Caret] = {}
        self.notes: dict[LineKey, list[Card]] = {}
        self.kernels: dict[LineKey, Counter[str]] = {}
        for found in report.graph_breaks:
            place = found.location
            if place.column is not None:
                self.carets.setdefault(place.at, Caret(place.column, place.end_column))
        for card in cards:
            if card.fact.location is not None:
                self.notes.setdefault(card.fact.location.at, []).append(card)
        for kernel in report.kernels:
            for place in kernel.places:
                self.kernels.setdefault(place.at, Counter())[kernel.graph] += 1

    def graph(self, identity: str, line: LineKey) -> Link:
        """The way to a graph that a line is in, with the number of kernels that the line became there."""
        link, number = self.links.fact(identity), self.kernels.get(line, Counter[str]())[identity]
        return Link(f"{identity}: {count_of(number, 'kernel')}", link.anchor) if number else link


class SourceView:
    """A file; `counts` is like `12 lines compiled, 3 in eager, 2 with graph breaks`."""

    def __init__(
        self, file: SourceFile, lines: list[SourceLine], anchors: Anchors, known: _Known, stands_open: bool
    ) -> None:
        at_lines = [(file.path, line.line) for line in lines]
        marks = {number: known.carets[at] for number, at in enumerate(at_lines) if at in known.carets}
        begins = {function.line: _FUNCTIONS[function.status] for function in file.functions}
        states = Counter(line.state for line in lines)
        counts = [f"{count_of(states['compiled'], 'line')} compiled"] if states["compiled"] else []
        counts += [f"{states['eager']:,} in eager"] if states["eager"] else []
        counts += [f"{states['broken']:,} with graph breaks"] if states["broken"] else []
        self.anchor = anchors.claim(f"source-{short_path(file.path)}")
        self.fact = file
        self.counts = ", ".join(counts)
        self.open = stands_open
        self.omitted = len(file.lines) - len(lines)
        self.rows: list[SourceRow] = []
        for line, (html, _) in zip(lines, highlighted_lines([line.code for line in lines], marks), strict=True):
            gap = bool(self.rows) and self.rows[-1].fact.line != line.line - 1
            self.rows.append(SourceRow(file.path, line, html, begins.get(line.line, ""), known, gap))


class SourceRow:
    """A line. `function` says what became of the function that begins here, `gap` that lines of no interest were left
    out before it; `notes` are the findings of this very line. `links` lead to its facts, `lists` are those of a kind of
    which there are several, folded under their number.
    """

    def __init__(self, path: str, line: SourceLine, html: Markup, function: str, known: _Known, gap: bool) -> None:
        links = known.links
        recompiles = [links.fact(identity) for identity in line.recompiles]
        graphs = [known.graph(identity, (path, line.line)) for identity in line.graphs]
        self.anchor = links.lines[path, line.line]
        self.fact = line
        self.html = html
        self.state_words = _STATES[line.state]
        self.function = function
        self.links = [links.fact(identity) for identity in line.breaks]
        self.lists: list[tuple[str, Listed[Link]]] = []
        for name, found in (("recompile", recompiles), ("graph", graphs)):
            if len(found) == 1:
                self.links += found
            elif found:
                self.lists.append((count_of(len(found), name), first(found, _MAX_LINKS)))
        self.notes = known.notes.get((path, line.line), [])
        self.gap = gap
