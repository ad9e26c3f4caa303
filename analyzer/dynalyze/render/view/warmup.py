"""The warm-up check of the page: a table of shapes, the buckets, the second start."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.render.view.links import Shown, shown
from dynalyze.report import Report
from dynalyze.report.audit import ShapeRun, Warmup
from dynalyze.text.amounts import milliseconds
from dynalyze.text.visible import clipped
from dynalyze.words import warmup as words

MAX_SHAPES = 200
MAX_TEXT = 400


@dataclass(frozen=True)
class ShapeRow:
    shape: str
    compiled: str
    first: str
    later: str
    runs: str
    after: str
    bad: bool


@dataclass(frozen=True)
class BucketRow:
    padded_to: str
    shapes: int


@dataclass(frozen=True)
class WarmupView:
    headline: str
    sentences: list[str]
    rows: list[ShapeRow]
    amount: Shown
    buckets: list[BucketRow]
    notes: list[str]


def warmup_view(report: Report) -> WarmupView | None:
    """None where no shapes were tried."""
    warmup = report.warmup
    if warmup is None:
        return None
    some, amount = shown(warmup.calls, MAX_SHAPES)
    return WarmupView(
        headline=clipped(words.headline(warmup), MAX_TEXT),
        sentences=[clipped(each, MAX_TEXT) for each in words.sentences(warmup)],
        rows=[_row(run, warmup) for run in some],
        amount=amount,
        buckets=[BucketRow(words.shape_words(each.padded_to), each.shapes) for each in warmup.buckets],
        notes=[clipped(note, MAX_TEXT) for note in warmup.notes],
    )


def _row(run: ShapeRun, warmup: Warmup) -> ShapeRow:
    again = next((each for each in warmup.after_warmup if each.shape == run.shape), None)
    return ShapeRow(
        shape=words.shape_words(run.shape),
        compiled=clipped(words.compiled(run), MAX_TEXT),
        first="" if run.error else milliseconds(run.milliseconds),
        later=words.later(run),
        runs=clipped(words.runs(run), MAX_TEXT),
        after=clipped(_after(run, again), MAX_TEXT),
        bad=bool(run.error or run.in_eager or again is not None),
    )


def _after(run: ShapeRun, again: ShapeRun | None) -> str:
    if run.error:
        return "it failed"
    if again is not None:
        return words.compiled(again)
    return "nothing: it runs in eager" if run.in_eager else "nothing"
