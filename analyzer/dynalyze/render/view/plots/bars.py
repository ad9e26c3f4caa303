"""Bars: what starting up takes and of what it is made, and the peaks of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Scale, Shape, px
from dynalyze.report.measurements import Measurement, Memory
from dynalyze.text.amounts import duration, size
from dynalyze.words.bench import EAGER, first_calls, more_memory

_WIDTH, _LABELS, _VALUES = 760, 200, 150
_TOP, _ROW, _BAR = 4, 24, 14
_RESERVED = "reserved"

_PARTS = {"import": "import torch", "load": "build the model", "first": "first calls, until steady"}
_MEMORY = {
    "cuda": "Memory allocated on the GPU, at its peak.",
    "rss": "Resident memory of the process and of its compile workers, at its peak.",
    "process": "Peak of the process since it began; this system tells no peak of a part of its life.",
}


def startup_plot(identity: str, items: Sequence[Measurement]) -> Plot | None:
    """Seconds until calls are fast, from the start of a process; None where nobody measured them."""
    rows = [row for item in items if item.status == "valid" for row in _startups(item)]
    if not rows:
        return None
    x = Scale(0.0, max(math.fsum(parts.values()) for _, parts in rows) or 1.0, _LABELS, _WIDTH - _VALUES)
    shapes: list[Shape] = []
    for at, (name, parts) in enumerate(rows):
        shapes += _stacked(name, parts, x, _TOP + at * _ROW)
    bottom = _TOP + len(rows) * _ROW
    return Plot(
        identity,
        "Starting up",
        "; ".join(f"{name}: {_parts_words(parts)}" for name, parts in rows),
        _WIDTH,
        bottom + 20,
        [*draw.across(x, 0, bottom, draw.time_tick), *shapes],
        [(f"part {part}", words) for part, words in _PARTS.items() if any(part in parts for _, parts in rows)],
        "Cold: empty caches. Warm: a new process with the caches that the cold one left.",
    )


def _startups(item: Measurement) -> list[tuple[str, dict[str, float]]]:
    """A row for eager, or two for a compiled configuration. Each counts the same number of first calls."""
    startup = item.startup
    if startup is None:
        return []
    before = {"import": startup.import_seconds, "load": startup.load_seconds}
    known = {name: seconds for name, seconds in before.items() if seconds is not None}
    kinds = [("cold", startup.cold_calls_ms), ("warm", startup.warm_calls_ms)]
    if item.configuration == EAGER:
        return [("eager", {**known, "first": sum(startup.eager_calls_ms[:1]) / 1000})]
    number = first_calls(startup)
    return [
        (f"{draw.shortened(item.configuration)}, {kind}", {**known, "first": math.fsum(calls[:number]) / 1000})
        for kind, calls in kinds
        if calls
    ]


def _stacked(name: str, parts: dict[str, float], x: Scale, y: float) -> list[Shape]:
    shapes: list[Shape] = []
    gone = 0.0
    for part, seconds in parts.items():
        left, gone = x.at(gone), gone + seconds
        width = round(x.at(gone) - left, 1)
        if width > 0:
            shapes.append(
                draw.Rect(f"part {part}", left, y, width, _BAR, f"{name}, {_PARTS[part]}: {duration(seconds)}")
            )
    return [draw.Label("name", 0, y + 11, name), *shapes, draw.Label("note", x.at(gone) + 6, y + 11, duration(gone))]


def _parts_words(parts: dict[str, float]) -> str:
    return ", ".join(f"{_PARTS[part]} {duration(seconds)}" for part, seconds in parts.items())


def memory_plot(identity: str, items: Sequence[Measurement]) -> Plot | None:
    """The peaks of each configuration; None where nobody measured them."""
    measured = [(item, item.memory) for item in items if item.status == "valid" and item.memory is not None]
    if not measured:
        return None
    most = max(max(memory.steady_peak, memory.compile_peak or 0, memory.reserved_peak or 0) for _, memory in measured)
    x = Scale(0.0, float(most or 1), _LABELS, _WIDTH - _VALUES)
    shapes: list[Shape] = []
    for at, (item, memory) in enumerate(measured):
        shapes += _peaks(item.configuration, memory, x, _TOP + at * _ROW)
    bottom = _TOP + len(measured) * _ROW
    keys = [("peak", "steady calls")]
    keys += [("compile", "while compiling")] if any(memory.compile_peak for _, memory in measured) else []
    keys += [(_RESERVED, "reserved")] if any(memory.reserved_peak for _, memory in measured) else []
    kinds = dict.fromkeys(memory.kind for _, memory in measured)
    return Plot(
        identity,
        "Memory",
        "; ".join(f"{item.configuration}: {_memory_words(memory)}" for item, memory in measured),
        _WIDTH,
        bottom + 20,
        [*draw.across(x, 0, bottom, draw.size_tick), *shapes],
        keys,
        " ".join(_MEMORY[kind] for kind in kinds),
    )


def _peaks(name: str, memory: Memory, x: Scale, y: float) -> list[Shape]:
    end = max(memory.steady_peak, memory.compile_peak or 0, memory.reserved_peak or 0)
    width = round(x.at(memory.steady_peak) - x.start, 1)
    shapes: list[Shape] = [
        draw.Label("name", 0, y + 11, draw.shortened(name)),
        draw.Rect("peak", x.start, y, width, _BAR),
    ]
    if memory.compile_peak:
        title = f"while compiling: {size(memory.compile_peak)}"
        shapes.append(draw.Rect("compile", x.start, y, round(x.at(memory.compile_peak) - x.start, 1), _BAR, title))
    if memory.reserved_peak:
        at = x.at(memory.reserved_peak)
        shapes.append(
            draw.Path(_RESERVED, f"M{px(at)} {px(y - 2)}V{px(y + _BAR + 2)}", f"reserved: {size(memory.reserved_peak)}")
        )
    more = "" if name == EAGER else more_memory(memory)
    text = f"{size(memory.steady_peak)}{f' ({more})' if more else ''}"
    return [*shapes, draw.Label("note", x.at(end) + 6, y + 11, text)]


def _memory_words(memory: Memory) -> str:
    told = [f"{size(memory.steady_peak)} in steady calls"]
    told += [f"{size(memory.compile_peak)} while compiling"] if memory.compile_peak else []
    told += [f"{size(memory.reserved_peak)} reserved"] if memory.reserved_peak else []
    return ", ".join(told)
