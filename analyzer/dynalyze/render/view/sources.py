"""The program line by line: what was compiled, where a graph broke, what runs in eager, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dynalyze.render.highlight import Caret, highlighted_lines
from dynalyze.render.view.findings import Card
from dynalyze.render.view.graphs import GraphView, LineKey
from dynalyze.render.view.links import Anchors, Index, Link
from dynalyze.report import GraphBreak, Report
from dynalyze.report.code import FunctionStatus, LineState, SourceFile, SourceFunction, SourceLine
from dynalyze.text.amounts import count_of
from dynalyze.words.report import short_path

MAX_LINES = 2000
"""Lines of source on the page, all files together."""

_MAX_OPEN = 300
_MAX_LINKS = 8

_STATES: dict[LineState, str] = {
    "compiled": "compiled", "broken": "graph break", "eager": "runs in eager", "silent": "",
}  # fmt: skip
_FUNCTIONS: dict[FunctionStatus, str] = {
    "compiled": "compiled", "broken": "compiled in parts", "eager": "runs in eager", "failed": "compile failed",
    "inlined": "compiled within its callers",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A line. `gap`: lines of no interest were left out before it. `notes`: the findings of this very line."""

    anchor: str
    fact: SourceLine
    html: Markup
    caret: str
    state_words: str
    function: str
    links: list[Link]
    links_omitted: int
    notes: list[Card]
    gap: bool


@dataclass(frozen=True)
class SourceView:
    anchor: str
    fact: SourceFile
    counts: str
    open: bool
    rows: list[Row]
    omitted: int


@dataclass(frozen=True)
class SourcesView:
    files: list[SourceView]
    omitted: int


@dataclass(frozen=True)
class _Told:
    """What other parts of the page know of lines."""

    carets: Mapping[LineKey, Caret]
    notes: Mapping[LineKey, list[Card]]
    kernels: Mapping[LineKey, Mapping[str, Link]]


def sources_view(
    report: Report, links: Index, anchors: Anchors, cards: Sequence[Card], graphs: Sequence[GraphView]
) -> SourcesView:
    """Every file of which lines are known, as far as the page has room; what is broken stands open."""
    told = _Told(_carets(report.graph_breaks), _notes(cards), _kernels(graphs))
    shown, left_open = [], _MAX_OPEN
    for file in report.sources:
        lines = [line for line in file.lines if (file.path, line.line) in links.lines]
        if not lines:
            continue
        stands_open = any(line.breaks for line in lines) and len(lines) <= left_open
        left_open -= len(lines) if stands_open else 0
        shown.append(_file(file, lines, links, anchors, told, stands_open))
    omitted = sum(len(file.lines) + file.omitted for file in report.sources) - sum(len(each.rows) for each in shown)
    return SourcesView(shown, omitted)


def _file(
    file: SourceFile,
    lines: list[SourceLine],
    links: Index,
    anchors: Anchors,
    told: _Told,
    stands_open: bool,
) -> SourceView:
    at_lines = [(file.path, line.line) for line in lines]
    marks = {number: told.carets[at] for number, at in enumerate(at_lines) if at in told.carets}
    begins = {function.line: function for function in file.functions}
    html = highlighted_lines([line.code for line in lines], marks)
    rows = []
    for at, (line, (text, caret)) in enumerate(zip(lines, html, strict=True)):
        gap = bool(at) and lines[at - 1].line != line.line - 1
        rows.append(_row(file.path, line, text, caret, begins.get(line.line), links, told, gap))
    return SourceView(
        anchor=anchors.claim(f"source-{short_path(file.path)}"),
        fact=file,
        counts=_counts(lines),
        open=stands_open,
        rows=rows,
        omitted=len(file.lines) - len(lines),
    )


def _row(
    path: str,
    line: SourceLine,
    html: Markup,
    caret: str,
    begins: SourceFunction | None,
    links: Index,
    told: _Told,
    gap: bool,
) -> Row:
    kernels = told.kernels.get((path, line.line), {})
    facts = [links.fact(identity) for identity in (*line.breaks, *line.recompiles)]
    facts += [kernels.get(identity) or links.fact(identity) for identity in line.graphs]
    return Row(
        anchor=links.lines[path, line.line],
        fact=line,
        html=html,
        caret=caret,
        state_words=_STATES[line.state],
        function=_FUNCTIONS[begins.status] if begins is not None else "",
        links=facts[:_MAX_LINKS],
        links_omitted=max(0, len(facts) - _MAX_LINKS),
        notes=told.notes.get((path, line.line), []),
        gap=gap,
    )


def _kernels(graphs: Sequence[GraphView]) -> dict[LineKey, dict[str, Link]]:
    """For each line the way to the kernels that it became, by graph."""
    found: dict[LineKey, dict[str, Link]] = {}
    for graph in graphs:
        for key, anchor in graph.lines.anchors.items():
            number = graph.lines.kernels[key]
            found.setdefault(key, {})[graph.fact.id] = Link(f"{graph.fact.id}: {count_of(number, 'kernel')}", anchor)
    return found


def _counts(lines: Iterable[SourceLine]) -> str:
    """`12 lines compiled, 3 in eager, 2 with graph breaks`."""
    states = [line.state for line in lines]
    compiled, eager, broken = (states.count(state) for state in ("compiled", "eager", "broken"))
    told = [f"{count_of(compiled, 'line')} compiled"] if compiled else []
    told += [f"{eager:,} in eager"] if eager else []
    told += [f"{broken:,} with graph breaks"] if broken else []
    return ", ".join(told)


def _carets(breaks: Iterable[GraphBreak]) -> dict[LineKey, Caret]:
    """The columns of the first break of each line."""
    found: dict[LineKey, Caret] = {}
    for each in breaks:
        place = each.location
        if place.column is not None:
            found.setdefault((place.file, place.line), Caret(place.column, place.end_column))
    return found


def _notes(cards: Sequence[Card]) -> dict[LineKey, list[Card]]:
    found: dict[LineKey, list[Card]] = {}
    for card in cards:
        if (place := card.fact.location) is not None:
            found.setdefault((place.file, place.line), []).append(card)
    return found
