"""The typed comparison of two reports: what `dynalyze diff --json` and `dynalyze upgrade --json` write, and all that
their renderers know.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report import Cause, Effect, Location, Status
from dynalyze.report.measurements import AccuracyVerdict, Interval, Speedup
from dynalyze.report.sensitivity import Argument, BreakType, FilePath, Message, Name, Quote, Word

SCHEMA_VERSION = 1
UPGRADE_SCHEMA = 2

Direction = Literal["better", "worse", "same"]
RegressionKind = Literal["outcome", "break", "effect", "recompile", "limit", "compilation"]


class ComparedRun(msgspec.Struct):
    """One of the two runs; `lost` counts what could not be recorded or read back."""

    dynalyze: Word
    created: Word
    target: Argument
    status: Status
    seconds: float
    lost: int = 0


class Difference(msgspec.Struct):
    """A difference around the two runs, which may explain others."""

    name: Name
    before: Name | None
    after: Name | None


class BreakSide(msgspec.Struct):
    """A graph break as one of the reports has it; `id` is its id there."""

    id: Word
    effect: Effect
    occurrences: int
    location: Location


class BreakChange(msgspec.Struct):
    """A graph break, matched. `before` is None for a new one, `after` for a fixed one.

    `direction` compares effects, from split to error, and not how often a break was seen. `advice` is that of the
    second report, for a new or worse break; `title` that of the latest report with the break.
    """

    gb_id: Word | None
    gb_type: BreakType
    before: BreakSide | None
    after: BreakSide | None
    direction: Direction = "same"
    advice: Quote = ""
    title: Quote = ""

    @property
    def name(self) -> str:
        """As `dynalyze explain` names it; by PyTorch's type where no finding is about it."""
        return self.title or self.gb_type or "Graph break"


class Breaks(msgspec.Struct):
    fixed: list[BreakChange] = []
    new: list[BreakChange] = []
    unchanged: list[BreakChange] = []
    changed: list[BreakChange] = []


class RecompileSide(msgspec.Struct):
    """The recompiles of one function for one reason in one report; the values are those of the first."""

    count: int
    location: Location
    expected: Quote | None = None
    actual: Quote | None = None
    seconds: float | None = None


class RecompileChange(msgspec.Struct):
    """Recompiles that agree in function, cause and source."""

    function: Name
    cause: Cause
    source: Quote | None
    before: RecompileSide | None
    after: RecompileSide | None
    direction: Direction = "same"


class Recompiles(msgspec.Struct):
    """`before` and `after` count all recompiles of a report; reaching the limit is none."""

    before: int = 0
    after: int = 0
    fixed: list[RecompileChange] = []
    new: list[RecompileChange] = []
    unchanged: list[RecompileChange] = []
    changed: list[RecompileChange] = []


class FunctionSide(msgspec.Struct):
    """What became of one function in one report. `kernels` and `ops` are None where they were not recorded.

    `compiled` counts compilations in part as well, `eager` those that fell back, `empty` those with nothing in
    them to compile.
    """

    location: Location
    compiled: int = 0
    eager: int = 0
    failed: int = 0
    empty: int = 0
    graphs: int = 0
    ops: int | None = None
    kernels: int | None = None
    seconds: float | None = None


class FunctionChange(msgspec.Struct):
    """One function and its compilations. Times are no part of `direction`: they differ from run to run."""

    function: Name
    before: FunctionSide | None
    after: FunctionSide | None
    direction: Direction = "same"


class Functions(msgspec.Struct):
    gone: list[FunctionChange] = []
    new: list[FunctionChange] = []
    unchanged: list[FunctionChange] = []
    changed: list[FunctionChange] = []


class Seconds(msgspec.Struct):
    """All compile time of each report; None where none was recorded."""

    before: float | None = None
    after: float | None = None


class LatencyChange(msgspec.Struct):
    """The median latency of one configuration and phase, in milliseconds. `ratio` is after by before.

    The two were measured at different times, so what tells them apart is the speedup over eager of each:
    `overlap` says whether the intervals of these two do, None where one is missing. `note` says why there is no ratio.
    """

    configuration: Name
    phase: Word
    before: float | None = None
    after: float | None = None
    ratio: float | None = None
    overlap: bool | None = None
    note: Word = ""
    batch: int | None = None
    sequence: int | None = None
    speedup_before: Interval | None = None
    speedup_after: Interval | None = None
    shape: dict[Name, int] = {}


class Regression(msgspec.Struct):
    """Something that is worse than before, for --fail-on regression."""

    kind: RegressionKind
    what: Quote
    location: Location | None = None


class Comparison(msgspec.Struct):
    before: ComparedRun
    after: ComparedRun
    differences: list[Difference]
    breaks: Breaks
    recompiles: Recompiles
    compilations: Functions
    compile_seconds: Seconds
    measurements: list[LatencyChange]
    regressions: list[Regression]


class ComparedInterpreter(msgspec.Struct):
    python: FilePath
    torch: Word


class OutputsCompared(msgspec.Struct):
    """The verdicts on outputs: of compiled against its own eager, under each torch, and of the second's eager and
    compiled against the first's. None where not known; `note` says why.
    """

    before: AccuracyVerdict | None = None
    after: AccuracyVerdict | None = None
    eager_across: AccuracyVerdict | None = None
    compiled_across: AccuracyVerdict | None = None
    note: Quote = ""

    @property
    def worse(self) -> str:
        """Which outputs are wrong now and were not; "" for none."""
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
        """Whether --fail-on regression is met."""
        slower = self.speed is not None and self.speed.verdict == "slower"
        return bool(self.comparison.regressions or slower or self.outputs.worse)
