"""The page of a comparison as data, ready for a template that only loops over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dynalyze.comparison.types import BreakChange, Comparison, FunctionChange, RecompileChange, Regression, Run
from dynalyze.render.highlight import Code, code_at
from dynalyze.render.view.links import Anchors, Place, Shown, place, shown
from dynalyze.render.view.run import Metric, Tone
from dynalyze.report import Effect, Location
from dynalyze.text.visible import clipped
from dynalyze.words import comparison as words
from dynalyze.words.report import cause_words, count_of, duration, status_words

MAX_BREAKS = 300
MAX_ROWS = 300
MAX_REGRESSIONS = 30
MAX_TEXT = 2000

_SECTIONS = (
    "verdict", "regressions", "differences", "breaks", "recompiles", "compilations", "measurements", "runs",
    "content", "theme", "filter", "filter-status", "help", "keys",
)  # fmt: skip
"""The anchors that the template names itself; those of the groups end in "-breaks"."""


@dataclass(frozen=True)
class BreakView:
    anchor: str
    title: str
    gb_id: str
    effect: Effect
    words: str
    place: Place
    was_at: Place | None
    code: Code | None
    advice: str


@dataclass(frozen=True)
class BreakGroup:
    """Breaks with one fate. What needs no attention is folded away."""

    anchor: str
    name: str
    lead: str
    folded: bool
    breaks: list[BreakView]
    amount: Shown


@dataclass(frozen=True)
class Row:
    """A row of a table; `mark` is "failed" for worse, "compiled" for better, "same" for neither."""

    anchor: str
    fate: str
    mark: str
    function: str
    place: Place
    texts: list[str]


@dataclass(frozen=True)
class Table:
    rows: list[Row]
    amount: Shown


@dataclass(frozen=True)
class RegressionView:
    """Something that got worse; `anchor` is "" where the page shows it no further."""

    text: str
    place: str
    anchor: str


@dataclass(frozen=True)
class ComparisonPage:
    title: str
    target: str
    before: Run
    after: Run
    tone: Tone
    status: str
    headline: str
    notes: list[str]
    metrics: list[Metric]
    regressions: list[RegressionView]
    regressions_omitted: int
    differences: list[tuple[str, str, str]]
    groups: list[BreakGroup]
    breaks: int
    recompiles: Table
    functions: Table
    measurements: list[tuple[str, str]]
    runs: list[tuple[str, str, str]]


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

    def regression(self, found: Regression) -> str:
        """The anchor of what got worse; "" where the page does not show it."""
        if found.location is None:
            return "runs"
        return self._facts.get((found.what, found.location), "")


def build_comparison(comparison: Comparison) -> ComparisonPage:
    """Everything that the page shows, in its order."""
    index = _Index()
    groups = _groups(comparison, index)
    recompiles, functions = _recompiles(comparison, index), _functions(comparison, index)
    sentence = words.verdict(comparison)
    worse = comparison.regressions
    target = _target(comparison.before.target, comparison.after.target)
    return ComparisonPage(
        title=f"{target} · dynalyze diff",
        target=target,
        before=comparison.before,
        after=comparison.after,
        tone=_tone(comparison),
        status=count_of(len(worse), "regression") if worse else "No regression",
        headline=words.drawn(sentence[:1].upper() + sentence[1:]),
        notes=words.notes(comparison),
        metrics=_metrics(comparison),
        regressions=[_regression(item, index) for item in worse[:MAX_REGRESSIONS]],
        regressions_omitted=max(0, len(worse) - MAX_REGRESSIONS),
        differences=[
            (item.name, clipped(words.value(item.before), MAX_TEXT), clipped(words.value(item.after), MAX_TEXT))
            for item in comparison.differences
        ],
        groups=groups,
        breaks=sum(group.amount.total for group in groups),
        recompiles=recompiles,
        functions=functions,
        measurements=[
            (words.measurement_name(item), words.drawn(words.measurement_words(item)))
            for item in comparison.measurements
        ],
        runs=_runs(comparison.before, comparison.after),
    )


def _target(before: str, after: str) -> str:
    return f"{after}, before and after" if before == after else words.drawn(f"{before} {words.ARROW} {after}")


def _tone(comparison: Comparison) -> Tone:
    if any(item.kind == "outcome" for item in comparison.regressions):
        return "bad"
    unfinished = any(run.status != "complete" for run in (comparison.before, comparison.after))
    return "warning" if comparison.regressions or unfinished else "good"


def _regression(found: Regression, index: _Index) -> RegressionView:
    at = place(found.location).text if found.location is not None else ""
    return RegressionView(clipped(words.regression_words(found), 300), at, index.regression(found))


def _metrics(comparison: Comparison) -> list[Metric]:
    breaks, recompiles, seconds = comparison.breaks, comparison.recompiles, comparison.compile_seconds
    metrics = [
        Metric("breaks fixed", f"{len(breaks.fixed):,}", "#breaks"),
        Metric("new breaks", f"{len(breaks.new):,}", "#breaks"),
        Metric("recompiles before", f"{recompiles.before:,}", "#recompiles"),
        Metric("recompiles after", f"{recompiles.after:,}", "#recompiles"),
    ]
    for when, value in (("before", seconds.before), ("after", seconds.after)):
        if value is not None:
            metrics.append(Metric(f"compile time {when}", duration(value), "#compilations"))
    return metrics


def _groups(comparison: Comparison, index: _Index) -> list[BreakGroup]:
    breaks = comparison.breaks
    by_direction = {
        direction: [change for change in breaks.changed if change.direction == direction]
        for direction in ("worse", "better", "same")
    }
    told: list[tuple[str, str, str, list[BreakChange]]] = [
        ("new", "New", "They were not there before.", breaks.new),
        ("worse", "Worse", "They cost more of their function than before.", by_direction["worse"]),
        ("fixed", "Fixed", "They were there before.", breaks.fixed),
        ("better", "Better", "They cost less of their function than before.", by_direction["better"]),
        ("changed", "Seen more or less often", "The breaks themselves are as before.", by_direction["same"]),
        ("unchanged", "Unchanged", "As before, even if the line moved.", breaks.unchanged),
    ]
    return [_group(kind, name, lead, changes, index) for kind, name, lead, changes in told if changes]


def _group(kind: str, name: str, lead: str, changes: list[BreakChange], index: _Index) -> BreakGroup:
    some, amount = shown(changes, MAX_BREAKS)
    folded = kind == "unchanged"
    return BreakGroup(f"{kind}-breaks", name, lead, folded, [_break(kind, each, index) for each in some], amount)


def _break(kind: str, change: BreakChange, index: _Index) -> BreakView:
    side = change.after or change.before
    assert side is not None
    moved = change.before is not None and change.before.location.line != side.location.line
    return BreakView(
        anchor=index.claim(f"{kind}-break", side.location, change.gb_type),
        title=clipped(change.gb_type, 300) or "Graph break",
        gb_id=change.gb_id or "",
        effect=side.effect,
        words=words.drawn(words.break_words(change)),
        place=place(side.location),
        was_at=place(change.before.location) if change.before and moved else None,
        code=code_at(side.location, None),
        advice=clipped(change.advice, MAX_TEXT),
    )


def _recompiles(comparison: Comparison, index: _Index) -> Table:
    found = comparison.recompiles
    told = [("new", "failed", change) for change in found.new]
    told += [(change.direction, _MARKS[change.direction], change) for change in found.changed]
    told += [("fixed", "compiled", change) for change in found.fixed]
    told += [("unchanged", "same", change) for change in found.unchanged]
    some, amount = shown(told, MAX_ROWS)
    return Table([_recompile(*each, index) for each in some], amount)


def _recompile(fate: str, mark: str, change: RecompileChange, index: _Index) -> Row:
    side = change.after or change.before
    assert side is not None
    anchor = index.claim(f"{fate}-recompile", side.location, change.source or change.cause)
    values = f"{side.expected} \N{RIGHTWARDS ARROW} {side.actual}" if side.expected and side.actual else ""
    texts = [cause_words(change.cause), change.source or "", values, words.drawn(words.times_words(change))]
    return _row(anchor, fate, mark, change.function, side.location, texts)


def _functions(comparison: Comparison, index: _Index) -> Table:
    found = comparison.compilations
    told = [(_FATES[change.direction], _MARKS[change.direction], change) for change in found.changed]
    told += [("new", "same", change) for change in found.new]
    told += [("gone", "same", change) for change in found.gone]
    told += [("unchanged", "same", change) for change in found.unchanged]
    some, amount = shown(told, MAX_ROWS)
    return Table([_function(*each, index) for each in some], amount)


def _function(fate: str, mark: str, change: FunctionChange, index: _Index) -> Row:
    side = change.after or change.before
    assert side is not None
    anchor = index.claim("function", side.location, change.function)
    only = duration(side.seconds) if side.seconds is not None and not (change.before and change.after) else ""
    changed = ", ".join(words.function_words(change)) or "as before"
    texts = [words.drawn(changed), words.drawn(words.function_seconds(change)) or only]
    return _row(anchor, fate, mark, change.function, side.location, texts)


_MARKS = {"worse": "failed", "better": "compiled", "same": "same"}
_FATES = {"worse": "worse", "better": "better", "same": "changed"}


def _row(anchor: str, fate: str, mark: str, function: str, location: Location, texts: Iterable[str]) -> Row:
    return Row(anchor, fate, mark, function, place(location), [clipped(text, MAX_TEXT) for text in texts])


def _runs(before: Run, after: Run) -> list[tuple[str, str, str]]:
    return [
        ("Target", before.target, after.target),
        ("Ended", status_words(before.status), status_words(after.status)),
        ("Took", duration(before.seconds), duration(after.seconds)),
        ("Recorded", before.created, after.created),
        ("By dynalyze", before.dynalyze, after.dynalyze),
    ]
