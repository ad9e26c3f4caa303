"""The section on what a call costs: one bar of a whole call, and the costs of graph breaks and guards."""

from __future__ import annotations

from collections.abc import Mapping

from dynalyze.break_cost.records import BreakPrice, GuardPrice, PartKind, Prices, SettingPrice, prices_of
from dynalyze.render.text.report import line_words
from dynalyze.render.view.links import Anchors, Index
from dynalyze.render.view.measurements import Table
from dynalyze.render.view.page import Section
from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Rect, Scale, Shape
from dynalyze.report import Report
from dynalyze.rules.settings import setting_name
from dynalyze.text.amounts import count_of, milliseconds, percent
from dynalyze.text.escape import clipped

ANCHORS = ("prices",)
_MOST_ROWS = 50
_MOST_GUARDS = 12
_WIDTH, _TOP, _BAR = 760, 4, 34
_MOST_SHAPES = 600
_KINDS: dict[PartKind, str] = {
    "graph": "compiled graphs", "backward": "compiled backward", "break": "eager code at graph breaks",
    "resume": "getting back into compiled code", "guards": "guards", "entry": "getting into compiled code",
    "outside": "around compiled code",
}  # fmt: skip


def sections(report: Report, links: Index, anchors: Anchors) -> list[Section]:
    return [Section(PricesView(report, links, anchors), "prices", "What a call costs", folder="break_cost")]


def graph_times(report: Report) -> dict[str, float]:
    """Milliseconds per call of each graph with its backward, by compile id."""
    spent: dict[str, float] = {}
    for part in next((each.parts for each in prices_of(report.measurements) if each.parts), ()):
        if part.compile_id and part.kind in ("graph", "backward"):
            spent[part.compile_id] = spent.get(part.compile_id, 0.0) + part.ms
    return spent


class PricesView:
    """The first configuration with the parts of a call; falsy if there is none."""

    def __init__(self, report: Report, links: Index, anchors: Anchors) -> None:
        measured = [(each, own) for each in report.measurements for own in prices_of([each])]
        row, found = next(((row, own) for row, own in measured if own.parts), (None, Prices()))
        self.problem = next((own.problem for _, own in measured if own.problem), "")
        self.plot, self.lead, self.tables, self.breaks = None, "", list[Table](), False
        self.advice = list[tuple[str, str]]()
        if row is None or found.call_ms is None:
            self.shown = bool(self.problem)
            return
        self.shown, self.problem = True, ""
        self.lead = _lead(found, row.configuration)
        self.plot = _call_plot(anchors.claim("plot-call"), found, row.calls, links.facts)
        self.breaks = bool(found.breaks)
        tables = (_breaks(found.breaks), _settings(found.settings), _guards(found.guards))
        self.tables = [each for each in tables if each.rows]
        advised = (group for version in found.guards for group in version.groups if group.advice)
        self.advice = [(clipped(each.source, 80), each.advice) for each in advised]

    def __bool__(self) -> bool:
        return self.shown


def _lead(found: Prices, configuration: str) -> str:
    assert found.call_ms is not None
    lost = sum(each.ms.value for each in found.breaks)
    taken = f"{milliseconds(lost)} of it ({percent(min(1.0, lost / found.call_ms.value))})" if lost else "none of it"
    checks = sum(part.ms for part in found.parts if part.kind == "guards")
    guards = f" and checking guards {milliseconds(checks)}" if checks else ""
    return (
        f"A call of {configuration} takes {milliseconds(found.call_ms.value)}: graph breaks take {taken}{guards}. "
        f"Measured over {count_of(found.passes, 'pass', 'passes')}, with the model warm."
    )


def _breaks(prices: list[BreakPrice]) -> Table:
    heads = ["Graph break", "Of each call", "95% interval", "Share", "In eager", "Getting back", "Without it, at best"]
    rows = [
        [
            f"{each.break_id or each.gb_type}, {line_words(each.place)}",
            milliseconds(each.ms.value),
            f"{milliseconds(each.ms.low)} to {milliseconds(each.ms.high)}",
            percent(each.share),
            milliseconds(each.gap_ms),
            milliseconds(each.resume_ms),
            milliseconds(each.without_ms),
        ]
        for each in prices[:_MOST_ROWS]
    ]
    return Table("What graph breaks take of a call", heads, rows)


def _settings(tried: list[SettingPrice]) -> Table:
    heads = ["Setting", "A call with it", "95% interval", "Without it", "Graph breaks left"]
    rows = []
    for each in tried:
        left = "" if each.left is None else f"{each.left:,}"
        if each.ms is None or each.plain_ms is None:
            rows.append([setting_name(each.setting), each.problem, "", "", left])
            continue
        ends = f"{milliseconds(each.ms.low)} to {milliseconds(each.ms.high)}"
        rows.append([setting_name(each.setting), milliseconds(each.ms.value), ends, milliseconds(each.plain_ms), left])
    return Table("Settings that were tried against graph breaks", heads, rows)


def _guards(prices: list[GuardPrice]) -> Table:
    heads = ["Compiled code", "Its guards look at", "Of each call", "Share of its guards", "Sources"]
    rows = []
    for each in prices[:_MOST_GUARDS]:
        if each.us < 1:
            continue
        where = f"{each.compile_id}, {line_words(each.place)}" if each.place else each.compile_id
        number = "" if each.count is None else f"{each.count:,}"
        rows.append([where, "everything", milliseconds(each.us / 1e3), "100%", number])
        rows += [
            [where, clipped(group.source, 80), milliseconds(group.us / 1e3), percent(group.share), f"{group.sources:,}"]
            for group in each.groups
        ]
    return Table("What guards take of a call", heads, rows)


def _call_plot(identity: str, prices: Prices, calls: int, anchors: Mapping[str, str]) -> Plot | None:
    """One bar of a whole call, from left to right; the parts of a graph break link to it. None if there
    are no parts.
    """
    whole = sum(part.ms for part in prices.parts)
    if not whole:
        return None
    x = Scale(0.0, whole, 1, _WIDTH - 1)
    shapes: list[Shape] = list(draw.across(x, 0, _TOP + _BAR + 4, lambda ms: draw.time_tick(ms / 1e3)))
    gone = 0.0
    for part in prices.parts[:_MOST_SHAPES]:
        left, gone = x.at(gone), gone + part.ms
        if (width := round(x.at(gone) - left, 1)) > 0:
            where = f" {line_words(part.place)}" if part.place is not None else ""
            title = f"{_KINDS[part.kind]}{where}: {milliseconds(part.ms)} ({percent(part.ms / whole)})"
            shapes.append(Rect(f"part {part.kind}", left, _TOP, width, _BAR, title, anchors.get(part.break_id, "")))
    sums = {kind: sum(part.ms for part in prices.parts if part.kind == kind) for kind in _KINDS}
    known = [(kind, f"{words}: {milliseconds(sums[kind])}") for kind, words in _KINDS.items() if sums[kind]]
    description = f"A call of {milliseconds(whole)}, in time: {', '.join(words for _, words in known)}."
    legend = [(f"part {kind}", words) for kind, words in known]
    note = f"The {calls:,} calls of a round in their order, so drawn that together they are one average call."
    return Plot(
        identity, "A whole call" if calls == 1 else "An average call", description, _WIDTH, _TOP + _BAR + 24, shapes,
        legend, note if calls > 1 else "",
    )  # fmt: skip
