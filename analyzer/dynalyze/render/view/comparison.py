"""The page of a comparison as data, ready for a template that only loops over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynalyze.comparison.types import BreakChange, Comparison, Difference, FunctionChange, RecompileChange, Regression
from dynalyze.render.highlight import code_at
from dynalyze.render.text import comparison as words
from dynalyze.render.text.bench import capital, workload_name
from dynalyze.render.text.report import CAUSE_WORDS, STATUS_WORDS, count_of, duration
from dynalyze.render.view.links import Anchors, Listed, Place, first, place
from dynalyze.render.view.run import Metric, Tone
from dynalyze.report import Location
from dynalyze.text.escape import clipped

MAX_BREAKS = 300
MAX_ROWS = 300
MAX_REGRESSIONS = 30
MAX_TEXT = 2000

_SECTIONS = (
    "verdict", "regressions", "differences", "breaks", "recompiles", "compilations", "measurements", "runs",
    "content", "theme", "filter", "filter-status", "help", "keys",
)  # fmt: skip
"""The anchors that the template names itself; those of the groups end in "-breaks"."""

_GROUPS = {
    "new": ("New", "They were not there before."),
    "worse": ("Worse", "They cost their function more than before."),
    "fixed": ("Fixed", "They were there before."),
    "better": ("Better", "They cost their function less than before."),
    "changed": ("Seen more or less often", "The breaks themselves are as before."),
    "unchanged": ("Unchanged", "As before, even if the line moved."),
}
_MARKS = {"worse": "failed", "better": "compiled", "same": "same"}


class _Index:
    """Gives each fact its anchor, and finds that of a regression."""

    def __init__(self) -> None:
        self._anchors = Anchors(_SECTIONS)
        self._facts: dict[tuple[str, Location], str] = {}

    def claim(self, kind: str, location: Location, what: str) -> str:
        """An anchor that tells the place; what is worse is claimed before what is not."""
        anchor = self._anchors.claim(f"{kind}-{location.file.rpartition('/')[2]}-{location.line}")
        self._facts.setdefault((what, location), anchor)
        return anchor

    def regression(self, found: Regression) -> tuple[str, str, str]:
        """What got worse and where, and its anchor, "" where the page does not show it."""
        text = clipped(words.regression_words(found), 300)
        if found.location is None:
            return text, "", "runs"
        return text, place(found.location).text, self._facts.get((found.what, found.location), "")


class ComparisonPage:
    def __init__(self, comparison: Comparison) -> None:
        index = _Index()
        before, after, worse = comparison.before, comparison.after, comparison.regressions
        both = f"{before.target} {words.ARROW} {after.target}"
        found = comparison.measurements
        fates = words.break_fates(comparison.breaks)
        self.groups = [BreakGroup(fate, changes, index) for fate, changes in fates.items() if changes]
        self.breaks = sum(group.shown.total for group in self.groups)
        self.recompiles = _recompiles(comparison, index)
        self.functions = _functions(comparison, index)
        self.target = f"{after.target}, before and after" if before.target == after.target else words.drawn(both)
        self.title = f"{self.target} · dynalyze diff"
        self.tone = _tone(comparison)
        self.status = count_of(len(worse), "regression") if worse else "No regression"
        self.headline = words.drawn(capital(words.verdict(comparison)))
        self.notes = words.notes(comparison)
        self.metrics = _metrics(comparison)
        self.regressions = first(worse, MAX_REGRESSIONS).map(index.regression)
        self.differences = difference_rows(comparison.differences, MAX_TEXT)
        self.measurements = [(workload_name(item), words.drawn(words.measurement_words(item))) for item in found]
        self.runs = [
            ("Target", before.target, after.target),
            ("Ended", STATUS_WORDS[before.status], STATUS_WORDS[after.status]),
            ("Took", duration(before.seconds), duration(after.seconds)),
            ("Recorded", before.created, after.created),
            ("By dynalyze", before.dynalyze, after.dynalyze),
        ]


class BreakGroup:
    """Breaks with one fate. What needs no attention is folded away."""

    def __init__(self, kind: str, changes: list[BreakChange], index: _Index) -> None:
        self.anchor = f"{kind}-breaks"
        self.name, self.lead = _GROUPS[kind]
        self.folded = kind == "unchanged"
        self.shown = first(changes, MAX_BREAKS).map(lambda change: BreakView(kind, change, index))


class BreakView:
    def __init__(self, kind: str, change: BreakChange, index: _Index) -> None:
        side, before = words.latest(change.before, change.after), change.before
        moved = before is not None and before.location.line != side.location.line
        self.anchor = index.claim(f"{kind}-break", side.location, change.name)
        self.title = clipped(change.name, 300) or "Graph break"
        self.gb_id = change.gb_id or ""
        self.effect = side.effect
        self.words = words.drawn(words.break_words(change))
        self.place = place(side.location)
        self.was_at = place(before.location) if before and moved else None
        self.code = code_at(side.location, None)
        self.advice = clipped(change.advice, MAX_TEXT)


class ChangeRow(NamedTuple):
    """A row of a table; `mark` is "failed" for worse, "compiled" for better, "same" for neither."""

    anchor: str
    fate: str
    mark: str
    function: str
    place: Place
    texts: list[str]


def difference_rows(differences: Sequence[Difference], limit: int) -> list[tuple[str, str, str]]:
    return [
        (item.name, clipped(item.before or "none", limit), clipped(item.after or "none", limit)) for item in differences
    ]


def _tone(comparison: Comparison) -> Tone:
    if any(item.kind == "outcome" for item in comparison.regressions):
        return "bad"
    unfinished = any(run.status != "complete" for run in (comparison.before, comparison.after))
    return "warning" if comparison.regressions or unfinished else "good"


def _metrics(comparison: Comparison) -> list[Metric]:
    breaks, recompiles, seconds = comparison.breaks, comparison.recompiles, comparison.compile_seconds
    timed = (("before", seconds.before), ("after", seconds.after))
    return [
        Metric("breaks fixed", f"{len(breaks.fixed):,}", "#breaks"),
        Metric("new breaks", f"{len(breaks.new):,}", "#breaks"),
        Metric("recompiles before", f"{recompiles.before:,}", "#recompiles"),
        Metric("recompiles after", f"{recompiles.after:,}", "#recompiles"),
        *(Metric(f"compile time {when}", duration(each), "#compilations") for when, each in timed if each is not None),
    ]


def _recompiles(comparison: Comparison, index: _Index) -> Listed[ChangeRow]:
    found = comparison.recompiles
    rows = [("new", "failed", change) for change in found.new]
    rows += [(change.direction, _MARKS[change.direction], change) for change in found.changed]
    rows += [("fixed", "compiled", change) for change in found.fixed]
    rows += [("unchanged", "same", change) for change in found.unchanged]

    def row(each: tuple[str, str, RecompileChange]) -> ChangeRow:
        fate, mark, change = each
        side = words.latest(change.before, change.after)
        anchor = index.claim(f"{fate}-recompile", side.location, change.source or change.cause)
        values = f"{side.expected} \N{RIGHTWARDS ARROW} {side.actual}" if side.expected and side.actual else ""
        times = words.drawn(words.times_words(change))
        texts = [clipped(text, MAX_TEXT) for text in (CAUSE_WORDS[change.cause], change.source or "", values, times)]
        return ChangeRow(anchor, fate, mark, change.function, place(side.location), texts)

    return first(rows, MAX_ROWS).map(row)


def _functions(comparison: Comparison, index: _Index) -> Listed[ChangeRow]:
    found, fates = comparison.compilations, {"worse": "worse", "better": "better", "same": "changed"}
    rows = [(fates[change.direction], _MARKS[change.direction], change) for change in found.changed]
    rows += [("new", "same", change) for change in found.new]
    rows += [("gone", "same", change) for change in found.gone]
    rows += [("unchanged", "same", change) for change in found.unchanged]

    def row(each: tuple[str, str, FunctionChange]) -> ChangeRow:
        fate, mark, change = each
        side = words.latest(change.before, change.after)
        anchor = index.claim("function", side.location, change.function)
        only = duration(side.seconds) if side.seconds is not None and not (change.before and change.after) else ""
        changed = ", ".join(words.function_words(change)) or "as before"
        seconds = words.drawn(words.function_seconds(change)) or only
        texts = [clipped(words.drawn(changed), MAX_TEXT), clipped(seconds, MAX_TEXT)]
        return ChangeRow(anchor, fate, mark, change.function, place(side.location), texts)

    return first(rows, MAX_ROWS).map(row)
