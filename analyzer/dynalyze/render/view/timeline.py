"""Where compile time went: a bar for each compile on the clock of the run, cut into what each phase took itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dynalyze.render.chrome_trace import Span, spans
from dynalyze.render.view.links import Anchors, Index, Link, Shown, shown
from dynalyze.report import Report
from dynalyze.text.visible import visible
from dynalyze.words.report import count_of, duration, phase_words

MAX_ROWS = 100

# The drawing's measures, in its own units, which are CSS pixels.
_LABELS, _CHART, _TIMES = 216, 560, 84
_HEAD, _ROW, _BAR = 28, 24, 14
_LETTER_ROOM = 15.0
_LABEL_CHARACTERS = 27
_TICKS = 6
_PHASES = ("other", "dynamo", "aot_autograd", "inductor", "code_generation", "total")


@dataclass(frozen=True)
class Segment:
    """What one phase took itself; `letter` is "" where there is no room for it."""

    phase: str
    x: float
    width: float
    letter: str


@dataclass(frozen=True)
class Row:
    """A bar; `id` is its own anchor, `anchor` that of its compilation."""

    id: str
    y: int
    anchor: str
    label: str
    title: str
    x: float
    width: float
    segments: list[Segment]
    time: str
    time_x: float


@dataclass(frozen=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True)
class Phase:
    """A phase in the legend, with its own time over all compiles."""

    phase: str
    letter: str
    words: str
    time: str


@dataclass(frozen=True)
class TableRow:
    link: Link
    function: str
    what: str
    began: str
    whole: str
    phases: list[str]


@dataclass(frozen=True)
class TimelineView:
    """`anchors` tells which bar is a compilation's first, by the anchor of that compilation."""

    sentences: list[str]
    width: int
    height: int
    labels: int
    bar: int
    ticks: list[Tick]
    rows: list[Row]
    phases: list[Phase]
    table: list[TableRow]
    amount: Shown
    recompiles: bool
    anchors: dict[str, str]


def timeline_view(report: Report, links: Index, anchors: Anchors) -> TimelineView:
    """The waterfall, its legend, and the same as sentences and as a table."""
    timed = [span for span in spans(report) if span.length is not None]
    some, amount = shown(timed, MAX_ROWS)
    placed = [span for span in some if span.began is not None]
    scale = _Scale.of(placed)
    rows = [_row(span, _HEAD + _ROW * at, scale, links, anchors) for at, span in enumerate(placed)]
    used = [phase for phase in _PHASES if any(_own(span).get(phase) for span in timed)]
    return TimelineView(
        sentences=_sentences(timed, len(timed) - sum(span.began is not None for span in timed)),
        width=_LABELS + _CHART + _TIMES,
        height=_HEAD + _ROW * len(placed),
        labels=_LABELS,
        bar=_BAR,
        ticks=scale.ticks(),
        rows=rows,
        phases=[_phase(phase, timed) for phase in used],
        table=[_table_row(span, used, links) for span in some],
        amount=amount,
        recompiles=any(span.recompiled for span in some),
        anchors={row.anchor: row.id for row in reversed(rows)},
    )


@dataclass(frozen=True)
class _Scale:
    """Seconds of the run to places in the drawing."""

    start: float
    length: float

    @classmethod
    def of(cls, placed: list[Span]) -> _Scale:
        start = min((span.began or 0.0 for span in placed), default=0.0)
        end = max(((span.began or 0.0) + (span.length or 0.0) for span in placed), default=0.0)
        return cls(start, max(end - start, 1e-6))

    def x(self, seconds: float) -> float:
        return round(_LABELS + _CHART * (seconds - self.start) / self.length, 2)

    def ticks(self) -> list[Tick]:
        """Round numbers of seconds, at most a few of them."""
        step = _round_up(self.length / _TICKS)
        first = math.ceil(self.start / step - 1e-9)
        last = math.floor((self.start + self.length) / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return [Tick(self.x(at * step), f"{at * step:.{digits}f} s") for at in range(first, last + 1)]


def _round_up(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def _own(span: Span) -> dict[str, float]:
    """What each phase took itself; a report that does not say gives the whole."""
    return span.exclusive or {"total": span.length or 0.0}


def _sentences(timed: list[Span], unplaced: int) -> list[str]:
    """How much time went into compiling, and what share of it into compiling again."""
    if not timed:
        return []
    total = math.fsum(span.length or 0.0 for span in timed)
    backward = math.fsum(span.length or 0.0 for span in timed if span.backward)
    again = math.fsum(span.length or 0.0 for span in timed if span.recompiled)
    said = [f"{duration(total)} went into {count_of(sum(not span.backward for span in timed), 'compile')}"]
    said[0] += f", {duration(backward)} of it into backward graphs." if backward else "."
    if not again or not total:
        said.append("None of it was recompilation.")
    else:
        said.append(f"{_percent(again / total)} of compile time was recompilation ({duration(again)}).")
    if unplaced:
        said.append(f"The start of {count_of(unplaced, 'compile')} is not known: the table alone has those.")
    return said


def _percent(share: float) -> str:
    return "Less than 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def _row(span: Span, y: int, scale: _Scale, links: Index, anchors: Anchors) -> Row:
    item, began, length = span.compilation, span.began or 0.0, span.length or 0.0
    link = links.compilation(item.process, item.epoch, item.compile_id)
    x = scale.x(began)
    width = max(1.5, scale.x(began + length) - x)
    function = item.function or item.location.function
    own = ", ".join(f"{phase_words(name)} {duration(taken)}" for name, taken in _own(span).items() if taken)
    return Row(
        id=anchors.claim(f"time-{link.anchor or link.text}"),
        y=y,
        anchor=link.anchor,
        label=_clip(" ".join(part for part in (item.compile_id, _mark(span), function) if part)),
        title=f"{link.text} {function}, {_what(span)}: {duration(length)} from {began:.2f} s on; {own}",
        x=x,
        width=round(width, 2),
        segments=_segments(span, x, width),
        time=duration(length),
        time_x=round(x + width + 6, 2),
    )


def _mark(span: Span) -> str:
    return ("↻ " if span.recompiled else "") + ("backward" if span.backward else "")


def _segments(span: Span, x: float, width: float) -> list[Segment]:
    own = {phase: seconds for phase, seconds in _own(span).items() if seconds > 0}
    whole = math.fsum(own.values())
    found: list[Segment] = []
    for phase in sorted(own, key=_rank):
        length = width * own[phase] / whole
        letter = _letter(phase) if length >= _LETTER_ROOM else ""
        found.append(Segment(phase if phase in _PHASES else "other", round(x, 2), round(length, 2), letter))
        x += length
    return found


def _rank(phase: str) -> int:
    return _PHASES.index(phase) if phase in _PHASES else 0


def _letter(phase: str) -> str:
    return phase_words(phase)[:1]


def _what(span: Span) -> str:
    kind = "backward" if span.backward else "forward"
    return f"{kind}, recompile" if span.recompiled else kind


def _phase(phase: str, timed: list[Span]) -> Phase:
    taken = math.fsum(_own(span).get(phase, 0.0) for span in timed)
    return Phase(phase, _letter(phase), phase_words(phase), duration(taken))


def _table_row(span: Span, used: list[str], links: Index) -> TableRow:
    item, own = span.compilation, _own(span)
    return TableRow(
        link=links.compilation(item.process, item.epoch, item.compile_id),
        function=item.function or item.location.function,
        what=_what(span),
        began="" if span.began is None else f"{span.began:.3f} s",
        whole=duration(span.length or 0.0),
        phases=[duration(own[phase]) if phase in own else "" for phase in used],
    )


def _clip(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _LABEL_CHARACTERS else f"{line[: _LABEL_CHARACTERS - 1]}…"
