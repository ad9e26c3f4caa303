"""Where compile time went: a bar for each compile on the clock of the run, cut into what each phase took itself."""

from __future__ import annotations

import math

from dynalyze.render.chrome_trace import Span, spans
from dynalyze.render.text.report import count_of, duration, phase_words
from dynalyze.render.view.links import Index
from dynalyze.render.view.plots.drawing import Scale, round_step, shortened
from dynalyze.report import OWN_PHASES, Report

MAX_ROWS = 30

# The drawing's measures, in its own units, which are CSS pixels.
_LABELS, _CHART, _TIMES = 216, 560, 84
_HEAD, _ROW, _BAR = 28, 24, 14
_LETTER_ROOM = 15.0
_LABEL_CHARACTERS = 27
_TICKS = 6
_PHASES = (*OWN_PHASES, "total")


class TimelineView:
    """The waterfall of the longest compiles, its legend, and all of them as sentences.

    `phases` are those of the legend, each with its letter, its name and its own time over all compiles.
    """

    def __init__(self, report: Report, links: Index) -> None:
        timed = [span for span in spans(report) if span.length is not None]
        known = [span for span in timed if span.began is not None]
        longest = sorted(known, key=lambda span: -(span.length or 0.0))[:MAX_ROWS]
        longest.sort(key=known.index)
        placed = [(span, span.began or 0.0, span.length or 0.0) for span in longest]
        start = min((began for _, began, _ in placed), default=0.0)
        end = max((began + length for _, began, length in placed), default=0.0)
        end = max(end, start + 1e-6, math.nextafter(start, math.inf))  # An axis has a length, however late it begins.
        scale = Scale(start, end, _LABELS, _LABELS + _CHART, digits=2)
        decimals = max(0, -math.floor(math.log10(round_step((end - start) / _TICKS)) + 1e-9))
        used = [phase for phase in _PHASES if any(_own(span).get(phase) for span in timed)]
        self.sentences = _sentences(timed, sum(span.began is None for span in timed))
        self.width = _LABELS + _CHART + _TIMES
        self.height = _HEAD + _ROW * len(placed)
        self.bar = _BAR
        self.ticks = [(scale.at(each), f"{each:.{decimals}f} s") for each in scale.ticks(_TICKS)]
        self.rows = [
            Bar(span, _HEAD + _ROW * at, (scale.at(began), scale.at(began + length)), links)
            for at, (span, began, length) in enumerate(placed)
        ]
        spent = [math.fsum(_own(span).get(phase, 0.0) for span in timed) for phase in used]
        named = [(phase, phase_words(phase)) for phase in used]
        self.phases = [
            (phase, name[:1], name, duration(seconds)) for (phase, name), seconds in zip(named, spent, strict=True)
        ]
        self.undrawn = len(known) - len(placed)
        self.recompiles = any(span.recompiled for span in longest)


class Bar:
    """A bar; `anchor` is that of its compilation. `segments` are what each phase took itself: its
    name, where it begins, how wide it is, and its letter, "" where there is no room for one.
    """

    def __init__(self, span: Span, y: int, ends: tuple[float, float], links: Index) -> None:
        item, length = span.compilation, span.length or 0.0
        link = links.compilation(*item.key)
        x = ends[0]
        width = max(1.5, ends[1] - x)
        marks = ("↻ " if span.recompiled else "") + ("backward" if span.backward else "")
        own = ", ".join(f"{phase_words(name)} {duration(taken)}" for name, taken in _own(span).items() if taken)
        self.y = y
        self.anchor = link.anchor
        name = links.function(item.location) or item.name
        self.label = shortened(" ".join(filter(None, (item.compile_id, marks, name))), _LABEL_CHARACTERS)
        what = f"{'backward' if span.backward else 'forward'}{', recompile' if span.recompiled else ''}"
        self.title = f"{link.text} {name}, {what}: {duration(length)} from {span.began:.2f} s on; {own}"
        self.x = x
        self.width = round(width, 2)
        self.segments = _segments(span, x, width)
        self.time = duration(length)
        self.time_x = round(x + width + 6, 2)


def _own(span: Span) -> dict[str, float]:
    """What each phase took itself; a report that does not say gives the whole."""
    return span.exclusive or {"total": span.length or 0.0}


def _sentences(timed: list[Span], unplaced: int) -> list[str]:
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
        share = "Less than 1%" if again / total < 0.005 else f"{100 * again / total:.0f}%"
        said.append(f"{share} of compile time was recompilation ({duration(again)}).")
    if unplaced:
        said.append(f"The start of {count_of(unplaced, 'compile')} is not known: they are not drawn.")
    return said


def _segments(span: Span, x: float, width: float) -> list[tuple[str, float, float, str]]:
    own = {phase: seconds for phase, seconds in _own(span).items() if seconds > 0}
    whole = math.fsum(own.values())
    found = []
    for phase in sorted(own, key=lambda phase: _PHASES.index(phase) if phase in _PHASES else 0):
        length = width * own[phase] / whole
        letter = phase_words(phase)[:1] if length >= _LETTER_ROOM else ""
        found.append((phase if phase in _PHASES else "other", round(x, 2), round(length, 2), letter))
        x += length
    return found
