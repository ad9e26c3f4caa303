"""What another torch changes for one program: the reports of both, compared, and what was measured in turns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dynalyze.comparison.types import Comparison, Difference, Regression
from dynalyze.report import Report
from dynalyze.report.measurements import AccuracyVerdict, Speedup
from dynalyze.report.sensitivity import FilePath, Message, Name, Quote, Word

SCHEMA_VERSION = 2


class ComparedInterpreter(msgspec.Struct):
    python: FilePath
    torch: Word


class OutputsCompared(msgspec.Struct):
    """What became of the answers: the verdict of compiled against its own eager, under each, and of the second's eager
    and compiled against the first's. None where that is not known: `note` says why.
    """

    before: AccuracyVerdict | None = None
    after: AccuracyVerdict | None = None
    eager_across: AccuracyVerdict | None = None
    compiled_across: AccuracyVerdict | None = None
    note: Quote = ""

    @property
    def worse(self) -> str:
        """Which answers are wrong now and were not; "" for none."""
        if self.after == "suspicious":
            return "compiled against its own eager" if self.before not in (None, "suspicious") else ""
        if self.eager_across == "suspicious":
            return "eager itself gives other values"
        other = self.compiled_across == "suspicious" and self.eager_across == "equal"
        return "compiled gives other values" if other else ""


class Upgrade(msgspec.Struct):
    """`comparison` is that of `dynalyze diff` for the two runs. `speed` is the first by the second: above 1 the second
    is faster; `latency_ms` are medians of both.
    """

    before: ComparedInterpreter
    after: ComparedInterpreter
    comparison: Comparison
    outputs: OutputsCompared = msgspec.field(default_factory=OutputsCompared)
    speed: Speedup | None = None
    latency_ms: tuple[float, float] | None = None
    notes: list[Message] = []

    @property
    def is_worse(self) -> bool:
        """What --fail-on regression asks."""
        slower = self.speed is not None and self.speed.verdict == "slower"
        return bool(self.comparison.regressions or slower or self.outputs.worse)


def told_again(first: Iterable[Regression], again: Iterable[Regression]) -> list[Regression]:
    """Those of a pair of runs that another pair of the same programs has too: chance alone makes none of these."""
    known = {_identity(each) for each in again}
    return [each for each in first if _identity(each) in known]


def _identity(found: Regression) -> tuple[str, ...]:
    place = (found.location.file, str(found.location.line)) if found.location is not None else ()
    return found.kind, found.what, *place


def settings_changed(before: Report, after: Report) -> list[Difference]:
    """Public settings of torch that both versions have, with another value: most are defaults that changed."""
    one, other = _settings(before), _settings(after)
    return [
        Difference(name, str(one[name])[:80], str(other[name])[:80])
        for name in one
        if name in other and one[name] != other[name]
    ]


def _settings(report: Report) -> dict[Name, Any]:
    blocks = report.caches.settings if report.caches is not None else []
    named = ((f"{block.of}.{name}", value) for block in blocks[::-1] for name, value in block.values.items())
    return {name: value for name, value in named if "._" not in name}
