"""The page of a comparison as data, ready for a template that only loops over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dynalyze.comparison.types import BreakChange, Comparison, FunctionChange, RecompileChange, Run
from dynalyze.render import comparison_words as words
from dynalyze.render.highlight import Code, code_at
from dynalyze.render.view.links import Place, Shown, place, shown
from dynalyze.render.view.run import Metric, Tone
from dynalyze.render.visible import clipped
from dynalyze.render.words import cause_words, count_of, duration, status_words
from dynalyze.report import Effect, Location

MAX_BREAKS = 300
MAX_ROWS = 300
MAX_TEXT = 2000


@dataclass(frozen=True)
class BreakView:
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
class ComparisonPage:
    title: str
    before: Run
    after: Run
    tone: Tone
    status: str
    headline: str
    notes: list[str]
    metrics: list[Metric]
    regressions: list[str]
    differences: list[tuple[str, str, str]]
    groups: list[BreakGroup]
    breaks: int
    recompiles: Table
    functions: Table
    measurements: list[tuple[str, str]]
    runs: list[tuple[str, str, str]]


def build_comparison(comparison: Comparison) -> ComparisonPage:
    """Everything that the page shows, in its order."""
    groups = _groups(comparison)
    sentence = words.verdict(comparison)
    worse = comparison.regressions
    return ComparisonPage(
        title=f"{comparison.before.target} {words.ARROW} {comparison.after.target} · dynalyze diff",
        before=comparison.before,
        after=comparison.after,
        tone=_tone(comparison),
        status=count_of(len(worse), "regression") if worse else "No regression",
        headline=sentence[:1].upper() + sentence[1:],
        notes=words.notes(comparison),
        metrics=_metrics(comparison),
        regressions=[clipped(words.regression_words(item), MAX_TEXT) for item in worse[:MAX_ROWS]],
        differences=[
            (item.name, clipped(words.value(item.before), MAX_TEXT), clipped(words.value(item.after), MAX_TEXT))
            for item in comparison.differences
        ],
        groups=groups,
        breaks=sum(group.amount.total for group in groups),
        recompiles=_recompiles(comparison),
        functions=_functions(comparison),
        measurements=[
            (words.measurement_name(item), words.measurement_words(item)) for item in comparison.measurements
        ],
        runs=_runs(comparison.before, comparison.after),
    )


def _tone(comparison: Comparison) -> Tone:
    if any(item.kind == "outcome" for item in comparison.regressions):
        return "bad"
    return "warning" if comparison.regressions else "good"


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


def _groups(comparison: Comparison) -> list[BreakGroup]:
    breaks = comparison.breaks
    by_direction = {
        direction: [change for change in breaks.changed if change.direction == direction]
        for direction in ("worse", "better", "same")
    }
    groups = [
        _group("new-breaks", "New", "They were not there before.", breaks.new),
        _group("worse-breaks", "Worse", "They cost more of their function than before.", by_direction["worse"]),
        _group("fixed-breaks", "Fixed", "They were there before.", breaks.fixed),
        _group("better-breaks", "Better", "They cost less of their function than before.", by_direction["better"]),
        _group(
            "changed-breaks", "Seen more or less often", "The breaks themselves are as before.", by_direction["same"]
        ),
        _group("unchanged-breaks", "Unchanged", "As before, even if the line moved.", breaks.unchanged, folded=True),
    ]
    return [group for group in groups if group.breaks]


def _group(anchor: str, name: str, lead: str, changes: list[BreakChange], folded: bool = False) -> BreakGroup:
    some, amount = shown(changes, MAX_BREAKS)
    return BreakGroup(anchor, name, lead, folded, [_break(change) for change in some], amount)


def _break(change: BreakChange) -> BreakView:
    side = change.after or change.before
    assert side is not None
    moved = change.before is not None and change.before.location.line != side.location.line
    return BreakView(
        title=clipped(change.gb_type, 300) or "Graph break",
        gb_id=change.gb_id or "",
        effect=side.effect,
        words=words.break_words(change),
        place=place(side.location),
        was_at=place(change.before.location) if change.before and moved else None,
        code=code_at(side.location, None),
        advice=clipped(change.advice, MAX_TEXT),
    )


def _recompiles(comparison: Comparison) -> Table:
    found = comparison.recompiles
    rows = [_recompile(change, "new", "failed") for change in found.new]
    rows += [_recompile(change, change.direction, _MARKS[change.direction]) for change in found.changed]
    rows += [_recompile(change, "fixed", "compiled") for change in found.fixed]
    rows += [_recompile(change, "unchanged", "same") for change in found.unchanged]
    return _table(rows)


def _recompile(change: RecompileChange, fate: str, mark: str) -> Row:
    side = change.after or change.before
    assert side is not None
    values = f"{side.expected} {words.ARROW} {side.actual}" if side.expected and side.actual else ""
    texts = [cause_words(change.cause), change.source or "", values, words.times_words(change)]
    return _row(fate, mark, change.function, side.location, texts)


def _functions(comparison: Comparison) -> Table:
    found = comparison.compilations
    rows = [_function(change, _FATES[change.direction], _MARKS[change.direction]) for change in found.changed]
    rows += [_function(change, "new", "same") for change in found.new]
    rows += [_function(change, "gone", "same") for change in found.gone]
    rows += [_function(change, "unchanged", "same") for change in found.unchanged]
    return _table(rows)


def _function(change: FunctionChange, fate: str, mark: str) -> Row:
    side = change.after or change.before
    assert side is not None
    only = duration(side.seconds) if side.seconds is not None and not (change.before and change.after) else ""
    texts = [", ".join(words.function_words(change)) or "as before", words.function_seconds(change) or only]
    return _row(fate, mark, change.function, side.location, texts)


_MARKS = {"worse": "failed", "better": "compiled", "same": "same"}
_FATES = {"worse": "worse", "better": "better", "same": "changed"}


def _row(fate: str, mark: str, function: str, location: Location, texts: Iterable[str]) -> Row:
    return Row(fate, mark, function, place(location), [clipped(text, MAX_TEXT) for text in texts])


def _table(rows: list[Row]) -> Table:
    some, amount = shown(rows, MAX_ROWS)
    return Table(list(some), amount)


def _runs(before: Run, after: Run) -> list[tuple[str, str, str]]:
    return [
        ("Target", before.target, after.target),
        ("Ended", status_words(before.status), status_words(after.status)),
        ("Took", duration(before.seconds), duration(after.seconds)),
        ("Recorded", before.created, after.created),
        ("By dynalyze", before.dynalyze, after.dynalyze),
    ]
