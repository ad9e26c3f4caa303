"""What rules conclude from the facts: a finding, its advice, and what it costs."""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report.code import Location
from dynalyze.report.sensitivity import Message, Name, Source, Word

Severity = Literal["error", "warning", "info"]

LATER_CALLS = 1000
"""After as many calls the price of compiling and that of calls are told together."""


def seconds_later(compile_seconds: float | None, ms_per_call: float | None) -> float | None:
    """What compiling and `LATER_CALLS` calls take together, where both are known."""
    if compile_seconds is None or ms_per_call is None:
        return None
    return round(compile_seconds + LATER_CALLS * ms_per_call / 1e3, 6)


class Impact(msgspec.Struct):
    """A measured cost, never estimated; None what was not measured.

    `ms_per_call` is spent in each call of the compiled model, `share` is that of the whole call, and `compile_seconds`
    went into compiling; `what` says into which. `without_ms` is the call less `ms_per_call`: a bound, what a call takes
    at best without this, as long as its graphs take what they take now. `calls` calls and compiling take `seconds`.
    """

    ms_per_call: float | None = None
    share: float | None = None
    compile_seconds: float | None = None
    what: Message = ""
    without_ms: float | None = None
    calls: int | None = None
    seconds: float | None = None


class Example(msgspec.Struct):
    """A change that was tried: code before and after."""

    before: Source
    after: Source


class Advice(msgspec.Struct):
    """One action: what to do, why it helps, an example, and where it is written down."""

    action: Message
    why: Message = ""
    example: Example | None = None
    config: Source = ""
    config_note: Message = ""
    link: Name = ""
    recipe: Word = ""


class Finding(msgspec.Struct):
    """A judged fact. `advice` is the one action in plain words; `detail` carries what a page shows around it.

    `fingerprint` names it in every run, also after lines moved; findings of one report have different ones. `after` is
    the id of the graph break that is to be ended first. `package` is the installed package whose code alone can change
    it; "" where the program can.
    """

    rule: Word
    severity: Severity
    title: Message
    location: Location | None = None
    evidence: list[Word] = []
    advice: Message = ""
    impact: Impact | None = None
    detail: Advice | None = None
    fingerprint: Word = ""
    after: Word = ""
    package: Word = ""
