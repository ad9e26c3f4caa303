"""The typed part of the report that an audit fills: the policy's verdict, the warm-up check, the bisection of wrong
numbers, and the attention matrix.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report.code import Location
from dynalyze.report.measurements import AccuracyVerdict, Speedup
from dynalyze.report.sensitivity import (
    Backend,
    Dtype,
    FilePath,
    Message,
    Name,
    Operation,
    Quote,
    Settings,
    Source,
    Word,
)

CheckStatus = Literal["passed", "failed", "unknown", "waived"]
"""unknown: what the check needs was not measured; a policy that asks for it does not pass."""

Stopping = Literal["interrupted", "out_of_time", ""]
"""What ended a part of an audit before it was done; what it had found until then stands."""


class OperatorProblem(msgspec.Struct):
    """A part of `torch.library.opcheck` that fails, and what it says."""

    test: Word
    message: Quote


class OperatorCheck(msgspec.Struct):
    """A custom operator that the calls reach, with the line that called it first, and what `torch.library.opcheck` says
    of it. `checked` are the inputs that it was tried on; `reason` is why it was not, or not on all.
    """

    name: Quote
    location: Location | None = None
    checked: int = 0
    problems: list[OperatorProblem] = []
    reason: Message = ""


class PolicyCheck(msgspec.Struct):
    """One line of a policy, judged. `limit` and `found` are texts for people; `evidence` are ids of facts.

    `asked`: the user's policy or options ask for it. Then it does not pass where it is unknown.
    """

    name: Word
    status: CheckStatus
    asked: bool = False
    limit: Name = ""
    found: Message = ""
    reason: Quote = ""
    evidence: list[Word] = []

    @property
    def fails(self) -> bool:
        """Whether the run fails for it."""
        return self.status == "failed" or (self.status == "unknown" and self.asked)


class Waiver(msgspec.Struct):
    """A finding that the policy lets pass. `expired`: it did until `expires`, and does not any more. `findings` are the
    fingerprints of those that it covers.
    """

    rule: Word
    reason: Name
    file: FilePath = ""
    line: int | None = None
    function: Name = ""
    expires: Word = ""
    expired: bool = False
    used: int = 0
    findings: list[Word] = []


class PolicyVerdict(msgspec.Struct):
    """Whether the run may ship. `known` counts the findings that the baseline holds, `new` are the fingerprints of
    those that it does not, `fixed` what it holds and the run does not show any more. `source` is the file the policy
    was read from, "" for the built-in one. `advice` ends the worst of what failed.
    """

    passed: bool
    summary: Message = ""
    advice: Quote = ""
    source: FilePath = ""
    checks: list[PolicyCheck] = []
    waivers: list[Waiver] = []
    baseline: FilePath = ""
    known: int = 0
    new: list[Word] = []
    fixed: list[Name] = []


class WarmupRecompile(msgspec.Struct):
    """A guard that did not hold in a call of the warm-up check; the fields are those of a recompile of the report.

    With cause `limit` nothing was compiled: the function runs in eager from there on.
    """

    cause: Word
    function: Name = ""
    file: FilePath = ""
    line: int = 0
    source: Quote | None = None
    expected: Quote | None = None
    actual: Quote | None = None
    guard: Quote = ""


class ShapeRun(msgspec.Struct):
    """One call with one of the shapes that production sends: what it compiled, and how long it took.

    `compiles` counts functions that were compiled, anew or again, `eager_frames` those that were tried and left in
    eager. Of the warm-up's own calls two more things are known, from calls after it: `versions`, the numbers of the
    compiled versions that run for this shape, and `in_eager`, the functions with compiled versions of which none
    fits this shape.
    """

    shape: dict[Name, int]
    milliseconds: float = 0.0
    compiles: int = 0
    recompiles: list[WarmupRecompile] = []
    breaks: int = 0
    eager_frames: int = 0
    error: Message = ""
    later_milliseconds: float | None = None
    versions: list[int] = []
    in_eager: list[Name] = []


class Bucket(msgspec.Struct):
    """Shapes of one compiled version: pad to `padded_to` and nothing compiles any more."""

    padded_to: dict[Name, int]
    shapes: int


class SecondStart(msgspec.Struct):
    """The same calls in a new process with the caches that the first one left. `reasons` say why caches were
    bypassed, as in `cache_bypasses` of the report; `said` are torch's words.
    """

    cold_seconds: float
    warm_seconds: float
    hits: int = 0
    misses: int = 0
    bypasses: int = 0
    warm: bool = False
    reasons: list[Word] = []
    said: Quote = ""


class WarmupFunction(msgspec.Struct):
    """A function that was compiled, and how many versions of it there are. `limit`: it got no more than these."""

    function: Name
    file: FilePath
    line: int
    versions: int
    limit: bool = False


class DynamicTrial(msgspec.Struct):
    """The same calls with dynamic=True. `versions` as of the function that has most; `after_warmup` counts calls."""

    versions: int
    after_warmup: int = 0
    in_eager: int = 0
    error: Message = ""


class Warmup(msgspec.Struct):
    """What the shapes of production compile. `warm_after` counts the calls until nothing more was compiled; None where
    something still was on the last one. `after_warmup` are the shapes that compiled although their warm-up was over.

    `reason` says why the check has no result, `stopped` what ended it early. `bucket_padding` is what padding adds to
    the elements of all shapes.
    """

    calls: list[ShapeRun] = []
    warm_after: int | None = None
    after_warmup: list[ShapeRun] = []
    buckets: list[Bucket] = []
    dynamic_advice: Message = ""
    second_start: SecondStart | None = None
    reason: Message = ""
    functions: list[WarmupFunction] = []
    recompile_limit: int = 0
    dynamic: Word = ""
    dynamic_trial: DynamicTrial | None = None
    bucket_padding: float | None = None
    stopped: Stopping = ""
    notes: list[Message] = []


BisectStage = Literal[
    "eager", "program", "dynamo", "aot_autograd", "decompositions", "inductor", "emulated", "backend", ""
]
"""program: it asks whether it is compiled, and does otherwise then. backend: one that is none of torch's own stages,
and is compared as a whole.
"""


class StageRun(msgspec.Struct):
    """The accuracy test of one stage on the way down: `backend` as torch.compile takes it."""

    stage: BisectStage
    backend: Backend
    verdict: AccuracyVerdict
    rmse: float | None = None
    nonfinite: int = 0
    reason: Quote = ""


class AskingPlace(msgspec.Struct):
    """A line of the program that asks whether it is compiled, and whose answer changes what is computed."""

    file: FilePath
    line: int
    function: Name = ""
    code: Source = ""


class Reduced(msgspec.Struct):
    """How much smaller the program of the script is than the graph that it began with: operations, elements of its
    inputs; `tried` counts the programs on the way.
    """

    operations_before: int
    operations: int
    elements_before: int
    elements: int
    tried: int


class Bisection(msgspec.Struct):
    """Where wrong numbers come from. `stage` is the first whose result is suspicious; `op` the operation whose result
    is the first to be wrong, or the last one of the smallest program that is; `module` the path of its submodule,
    `file` and `line` its line. `repro` is the path of a script that shows it alone. What could not be found out is
    empty, with the `reason`.

    `hidden`: the answers themselves are not suspicious, an operation on the way to them is; `stages` are verdicts on
    operations then. The errors are those of the operation, against fp64 on the inputs that it had. `gradient`: what is
    wrong is the gradient that the operation passes on. `judged` counts the results that were looked at.

    `part` of Inductor, or `decomposition`: without it the answers are right, and wrong from its pass, lowering or
    operation `applied` on. `workaround`
    is a setting that was tried, and made them right. `reduced` is set where the script is of a smaller program.

    `asks`: with these places told that they are compiled, eager gives compiled's answers. The stage is
    `program` then.
    """

    configuration: Name
    phase: Word = "forward"
    tensor: Quote = ""
    stages: list[StageRun] = []
    stage: BisectStage = ""
    module: Quote = ""
    module_class: Quote = ""
    op: Operation = ""
    file: FilePath = ""
    line: int = 0
    repro: Quote = ""
    seconds: float = 0.0
    reason: Quote = ""
    hidden: bool = False
    gradient: bool = False
    why: Quote = ""
    dtype: Dtype = ""
    eager_rmse: float | None = None
    compiled_rmse: float | None = None
    nonfinite: int = 0
    judged: int = 0
    part: Word = ""
    applied: Quote = ""
    workaround: Quote = ""
    reduced: Reduced | None = None
    asks: list[AskingPlace] = []


CellStatus = Literal["runs", "breaks", "recompiles", "eager_error", "compile_error", "not_here", "timeout", "crash"]
"""not_here: it cannot be tried on this device or with what is installed; `reason` says why."""


class AttentionCell(msgspec.Struct):
    """One combination of attention implementation, dtype and cache, tried. `id` is what findings name it by.

    `graph_breaks` and `recompiles` count the distinct ones of a recorded run. `accuracy` is the verdict of the
    fp64-anchored test, `speedup` that of compiled over eager with this very attention and dtype; the two latencies
    (milliseconds, median of a pass) can be set beside those of other cells, for all do the same work. What was not
    measured is None. `reason`, `file` and `line` tell of the first break or of the error. `facts` may hold
    `output_dtype` and `compiled_output_dtype`, the `cause` of the first recompile, and the `exception`.
    """

    attention: Name
    dtype: Name
    cache: Name = ""
    status: CellStatus = "runs"
    graph_breaks: int = 0
    recompiles: int = 0
    accuracy: AccuracyVerdict | None = None
    speedup: Speedup | None = None
    backends: list[Name] = []
    reason: Quote = ""
    file: FilePath = ""
    line: int = 0
    notes: list[Message] = []
    facts: Settings = {}
    id: Word = ""
    graphs: int = 0
    latency_ms: float | None = None
    eager_latency_ms: float | None = None


class AttentionMatrix(msgspec.Struct):
    """Every combination that was tried, row by row: attention, then cache, then dtype.

    `own_attention`, `own_dtype` and `own_cache` are what the target has without us. `backend` is that of
    torch.compile. `stopped` says why cells are missing at the end.
    """

    attentions: list[Name] = []
    dtypes: list[Name] = []
    caches: list[Name] = []
    cells: list[AttentionCell] = []
    device: Name = ""
    model: Name = ""
    phase: Word = "forward"
    backend: Name = "inductor"
    own_attention: Name = ""
    own_dtype: Name = ""
    own_cache: Name = ""
    stopped: Stopping = ""
    notes: list[Message] = []


STAGES: dict[BisectStage, str] = {
    "eager": "eager", "program": "the program's own code", "dynamo": "Dynamo",
    "aot_autograd": "AOTAutograd", "decompositions": "decompositions",
    "inductor": "Inductor", "emulated": "Inductor, rounding as eager", "backend": "the backend itself",
}  # fmt: skip


def stage_name(found: Bisection) -> str:
    """The first suspicious stage; a backend of the user's own goes by its name."""
    own = next((run.backend for run in found.stages if run.stage == "backend"), "")
    return own if found.stage == "backend" and own else STAGES.get(found.stage, found.stage)
