"""Bars: what starting up takes and of what it is made, and the peaks of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from dynalyze.render.text.bench import EAGER, first_calls, more_memory
from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Scale, Shape, px
from dynalyze.report.measurements import Measurement, Memory
from dynalyze.text.amounts import duration, size

_WIDTH, _LABELS, _VALUES = 760, 200, 150
_TOP, _ROW, _BAR = 4, 24, 14

_PARTS = {"import": "imports", "load": "build the model", "first": "first calls, until steady"}
_PEAKS = {"peak": "steady calls", "compile": "while compiling", "reserved": "reserved"}
_MEMORY = {
    "cuda": "Memory allocated on the GPU, at its peak.",
    "rss": "Resident memory of the process and of its compile workers, at its peak.",
    "process": "Peak of the process since it began; this system tells no peak of a part of its life.",
}


def startup_plot(identity: str, items: Sequence[Measurement]) -> Plot | None:
    """Seconds until calls are fast, from the start of a process; None where nobody measured them."""
    rows = [row for item in items if item.status == "valid" for row in _startups(item)]
    return _plot(
        identity,
        "Starting up",
        [f"{name}: {', '.join(f'{_PARTS[part]} {duration(seconds)}' for part, seconds in parts.items())}"
         for name, parts in rows],
        max((math.fsum(parts.values()) for _, parts in rows), default=0.0),
        draw.time_tick,
        [partial(_stacked, name, parts) for name, parts in rows],
        [(f"part {part}", words) for part, words in _PARTS.items() if any(part in parts for _, parts in rows)],
        "Cold: empty caches. Warm: a new process with the caches that the cold one left.",
    )  # fmt: skip


def memory_plot(identity: str, items: Sequence[Measurement]) -> Plot | None:
    """The peaks of each configuration; None where nobody measured them."""
    rows = [(item, item.memory, _peaks(item.memory)) for item in items if item.status == "valid" and item.memory]
    return _plot(
        identity,
        "Memory",
        [f"{item.configuration}: "
         + ", ".join(f"{size(peaks[kind])} {'in ' if kind == 'peak' else ''}{_PEAKS[kind]}" for kind in peaks)
         for item, _, peaks in rows],
        max((float(peak) for *_, peaks in rows for peak in peaks.values()), default=0.0),
        draw.size_tick,
        [partial(_marked, item.configuration, memory, peaks) for item, memory, peaks in rows],
        [(kind, words) for kind, words in _PEAKS.items() if any(kind in peaks for *_, peaks in rows)],
        " ".join(dict.fromkeys(_MEMORY[memory.kind] for _, memory, _ in rows)),
    )  # fmt: skip


def _plot(
    identity: str, title: str, descriptions: list[str], most: float, tick: Callable[[float], str],
    bars: Sequence[Callable[[Scale, float], list[Shape]]], legend: list[tuple[str, str]], note: str,
) -> Plot | None:  # fmt: skip
    """Bars from zero to at most `most`, each with its description."""
    if not bars:
        return None
    x = Scale(0.0, most or 1.0, _LABELS, _WIDTH - _VALUES)
    bottom = _TOP + len(bars) * _ROW
    drawn = (shape for at, bar in enumerate(bars) for shape in bar(x, _TOP + at * _ROW))
    shapes = [*draw.across(x, 0, bottom, tick), *drawn]
    return Plot(identity, title, "; ".join(descriptions), _WIDTH, bottom + 20, shapes, legend, note)


def _startups(item: Measurement) -> list[tuple[str, dict[str, float]]]:
    """A row for eager, or two for a compiled configuration. Each counts the same number of first calls."""
    startup = item.startup
    if startup is None:
        return []
    before = {"import": startup.import_seconds, "load": startup.load_seconds}
    known = {name: seconds for name, seconds in before.items() if seconds is not None}
    if item.configuration == EAGER:
        return [("eager", {**known, "first": sum(startup.eager_calls_ms[:1]) / 1000})]
    number, name = first_calls(startup), draw.shortened(item.configuration)
    return [
        (f"{name}, {kind}", {**known, "first": math.fsum(calls[:number]) / 1000})
        for kind, calls in (("cold", startup.cold_calls_ms), ("warm", startup.warm_calls_ms))
        if calls
    ]


def _stacked(name: str, parts: dict[str, float], x: Scale, y: float) -> list[Shape]:
    shapes: list[Shape] = []
    gone = 0.0
    for part, seconds in parts.items():
        left, gone = x.at(gone), gone + seconds
        width = round(x.at(gone) - left, 1)
        if width > 0:
            title = f"{name}, {_PARTS[part]}: {duration(seconds)}"
            shapes.append(draw.Rect(f"part {part}", left, y, width, _BAR, title))
    return [draw.Label("name", 0, y + 11, name), *shapes, draw.Label("note", x.at(gone) + 6, y + 11, duration(gone))]


def _peaks(memory: Memory) -> dict[str, int]:
    more = {"compile": memory.compile_peak, "reserved": memory.reserved_peak}
    return {"peak": memory.steady_peak, **{kind: peak for kind, peak in more.items() if peak}}


def _marked(name: str, memory: Memory, peaks: dict[str, int], x: Scale, y: float) -> list[Shape]:
    shapes: list[Shape] = [draw.Label("name", 0, y + 11, draw.shortened(name))]
    for kind, peak in peaks.items():
        at, title = x.at(peak), "" if kind == "peak" else f"{_PEAKS[kind]}: {size(peak)}"
        if kind == "reserved":
            shapes.append(draw.Path(kind, f"M{px(at)} {px(y - 2)}V{px(y + _BAR + 2)}", title))
        else:
            shapes.append(draw.Rect(kind, x.start, y, round(at - x.start, 1), _BAR, title))
    more = "" if name == EAGER else more_memory(memory)
    text = f"{size(memory.steady_peak)}{f' ({more})' if more else ''}"
    return [*shapes, draw.Label("note", x.at(max(peaks.values())) + 6, y + 11, text)]
