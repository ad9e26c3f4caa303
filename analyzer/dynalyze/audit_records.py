"""The typed part of the report that an audit fills: the policy's verdict, the warm-up check, the bisection of wrong
numbers, and the attention matrix.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dynalyze.measurements import AccuracyVerdict, Speedup

CheckStatus = Literal["passed", "failed", "unknown", "waived"]
"""unknown: what the check needs was not measured; a policy that asks for it does not pass."""


class PolicyCheck(msgspec.Struct):
    """One line of a policy, judged. `limit` and `found` are texts for people; `evidence` are ids of facts."""

    name: str
    status: CheckStatus
    limit: str = ""
    found: str = ""
    reason: str = ""
    evidence: list[str] = []


class Waiver(msgspec.Struct):
    """A finding that the policy lets pass. `expired`: it did until `expires`, and does not any more."""

    rule: str
    reason: str
    file: str = ""
    line: int | None = None
    function: str = ""
    expires: str = ""
    expired: bool = False
    used: int = 0


class PolicyVerdict(msgspec.Struct):
    """Whether the run may ship. `known` counts the findings that the baseline holds, `new` are the fingerprints of
    those that it does not. `source` is the file the policy was read from, "" for the built-in one.
    """

    passed: bool
    summary: str = ""
    source: str = ""
    checks: list[PolicyCheck] = []
    waivers: list[Waiver] = []
    baseline: str = ""
    known: int = 0
    new: list[str] = []


class ShapeRun(msgspec.Struct):
    """One call with one of the shapes that production sends: what it compiled, and how long it took."""

    shape: dict[str, int]
    milliseconds: float = 0.0
    compiles: int = 0
    recompiles: list[str] = []
    breaks: int = 0
    eager_frames: int = 0
    error: str = ""


class Bucket(msgspec.Struct):
    """Shapes of one compiled version: pad to `padded_to` and nothing compiles any more."""

    padded_to: dict[str, int]
    shapes: int


class SecondStart(msgspec.Struct):
    """The same calls in a new process with the caches that the first one left."""

    cold_seconds: float
    warm_seconds: float
    hits: int = 0
    misses: int = 0
    bypasses: int = 0
    warm: bool = False


class Warmup(msgspec.Struct):
    """What the shapes of production compile. `warm_after` counts the calls until nothing more was compiled; None where
    something still was on the last one. `after_warmup` are the shapes that compiled although their warm-up was over.
    """

    calls: list[ShapeRun] = []
    warm_after: int | None = None
    after_warmup: list[ShapeRun] = []
    buckets: list[Bucket] = []
    dynamic_advice: str = ""
    second_start: SecondStart | None = None
    reason: str = ""


BisectStage = Literal["eager", "dynamo", "aot_autograd", "decompositions", "inductor", "emulated", ""]


class StageRun(msgspec.Struct):
    """The accuracy test of one stage on the way down: `backend` as torch.compile takes it."""

    stage: BisectStage
    backend: str
    verdict: AccuracyVerdict
    rmse: float | None = None
    nonfinite: int = 0
    reason: str = ""


class Bisection(msgspec.Struct):
    """Where wrong numbers come from. `stage` is the first whose result is suspicious; `module` the path of the
    submodule, `op` the operation whose result is the first to be wrong, `file` and `line` its line in the program.
    `repro` is the path of a script that shows it alone. What could not be found out is empty, with the `reason`.
    """

    configuration: str
    phase: str = "forward"
    tensor: str = ""
    stages: list[StageRun] = []
    stage: BisectStage = ""
    module: str = ""
    module_class: str = ""
    op: str = ""
    file: str = ""
    line: int = 0
    repro: str = ""
    seconds: float = 0.0
    reason: str = ""


CellStatus = Literal["runs", "breaks", "recompiles", "eager_error", "compile_error", "not_here", "timeout", "crash"]
"""not_here: it cannot be tried on this device or with what is installed; `reason` says why."""


class AttentionCell(msgspec.Struct):
    """One combination of attention implementation, dtype and cache, tried."""

    attention: str
    dtype: str
    cache: str = ""
    status: CellStatus = "runs"
    graph_breaks: int = 0
    recompiles: int = 0
    accuracy: AccuracyVerdict | None = None
    speedup: Speedup | None = None
    backends: list[str] = []
    reason: str = ""
    file: str = ""
    line: int = 0
    notes: list[str] = []
    facts: dict[str, Any] = {}


class AttentionMatrix(msgspec.Struct):
    """Every combination that was tried, row by row: attention, then dtype, then cache."""

    attentions: list[str] = []
    dtypes: list[str] = []
    caches: list[str] = []
    cells: list[AttentionCell] = []
    device: str = ""
