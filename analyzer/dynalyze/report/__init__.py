"""The typed report: schema_version 1 of the report JSON, and nothing else.

Everything a renderer shows and a rule judges is a field here. Lists hold every fact once, in the order in
which it first happened. Unknown fields are ignored on reading, so a newer report of the same schema opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from dynalyze import registry
from dynalyze.capture.wire import CandidateKind
from dynalyze.capture.wire import CandidateReason as CandidateReason
from dynalyze.report.audit import AttentionMatrix, Bisection, OperatorCheck, PolicyVerdict, Warmup
from dynalyze.report.caches import CacheName as CacheName
from dynalyze.report.caches import Caches
from dynalyze.report.code import LineKey as LineKey
from dynalyze.report.code import Location as Location
from dynalyze.report.code import Snippet as Snippet
from dynalyze.report.code import SourceFile
from dynalyze.report.code import TracedFile as TracedFile
from dynalyze.report.code import TracedFunction as TracedFunction
from dynalyze.report.findings import LATER_CALLS as LATER_CALLS
from dynalyze.report.findings import Advice as Advice
from dynalyze.report.findings import Example as Example
from dynalyze.report.findings import Finding as Finding
from dynalyze.report.findings import Impact as Impact
from dynalyze.report.findings import Severity as Severity
from dynalyze.report.findings import seconds_later as seconds_later
from dynalyze.report.fixes import Fix, Fixed
from dynalyze.report.graphs import CompilationKey as CompilationKey
from dynalyze.report.graphs import Direction as Direction
from dynalyze.report.graphs import Graph as Graph
from dynalyze.report.graphs import GraphCode as GraphCode
from dynalyze.report.graphs import GraphInput as GraphInput
from dynalyze.report.graphs import InputKind as InputKind
from dynalyze.report.graphs import Kernel as Kernel
from dynalyze.report.graphs import KernelKind as KernelKind
from dynalyze.report.graphs import Provenance as Provenance
from dynalyze.report.graphs import Recomputed as Recomputed
from dynalyze.report.graphs import SavedTensor as SavedTensor
from dynalyze.report.graphs import Stage as Stage
from dynalyze.report.graphs import StageName as StageName
from dynalyze.report.measurements import Accuracy, Measurement
from dynalyze.report.models import AttentionCall, ModuleFacts
from dynalyze.report.plans import CompilePlan
from dynalyze.report.sensitivity import (
    Argument,
    BreakType,
    CommandLine,
    ErrorText,
    FilePath,
    Holds,
    Message,
    Name,
    Number,
    Quote,
    Settings,
    Source,
    Word,
)

SCHEMA_VERSION = 1

TargetKind = Literal["script", "object", "transformers", "library", "trace"]
Status = Literal["complete", "failed", "timed_out", "interrupted", "nothing_compiled", "incomplete"]
CompilationStatus = Literal["compiled", "broken", "eager", "failed"]
Effect = Literal["split", "partly_eager", "eager", "error"]
Cause = Literal[
    "shape", "rank", "stride", "dtype", "device", "requires_grad", "tensor_type", "value", "module_attribute",
    "identity", "container", "global_variable", "global_state", "symbolic", "aliasing", "dynamic_marking",
    "backend", "limit", "other",
]  # fmt: skip

PHASES = ("total", "dynamo", "aot_autograd", "inductor", "code_generation")
"""The phases of a compile as keys of `seconds`, outermost first: each holds the next one that is there."""

OWN_PHASES = ("dynamo", "guards", "aot_autograd", "inductor", "code_generation", "kernels", "other")
"""The keys of `exclusive`, phases without those inside of them: together they are the compile."""


class TargetModel(msgspec.Struct):
    """The model that was built for `hf:NAME`. `family` is transformers' model_type; `inputs` are texts: dtype and
    shape. `warm`: it ran once in eager before it was compiled, which took `eager_seconds`.
    """

    class_name: Name
    family: Name = ""
    parameters: int = 0
    inputs: dict[Name, Name] = {}
    warm: bool = False
    eager_seconds: float | None = None


class Target(msgspec.Struct):
    kind: TargetKind
    spec: Argument
    arguments: CommandLine = []
    model: TargetModel | None = None


class FailedStage(msgspec.Struct):
    """Why a model of transformers never came to be compiled; `file` and `line` are where it was raised."""

    stage: Literal["config", "model", "weights", "inputs", "eager"]
    exception: Name = ""
    message: ErrorText = ""
    file: FilePath = ""
    line: int = 0
    out_of_memory: bool = False


class Outcome(msgspec.Struct):
    """How the run ended. `exit_status` is the target's own; None where it never ended by itself.

    With `failed_stage` it is no result of torch.compile: nothing had been compiled yet. `raised_at` is the line where
    the exception that ended the program was raised.
    """

    status: Status
    message: ErrorText = ""
    exit_status: int | None = None
    seconds: float = 0.0
    failed_stage: FailedStage | None = None
    raised_at: Location | None = None


class Process(msgspec.Struct):
    process: int
    pid: int
    rank: int | None = None
    command: CommandLine = []


class CompileMemory(msgspec.Struct):
    """Bytes of a compile: `added` is the most by which the resident memory of the process rose meanwhile, `kept` by how
    much it had risen in the end, `others` the most that the processes held which it started: compilers and workers.
    """

    added: int = 0
    kept: int = 0
    others: int = 0


class BackwardCompile(msgspec.Struct):
    """The compile of a backward graph, often later than its forward one; the rest as of a compilation."""

    began: float | None = None
    seconds: dict[Word, float] = {}
    exclusive: dict[Word, float] = {}
    memory: CompileMemory | None = None


BypassReason = Literal[
    "custom_pass", "autograd_function", "autocast", "function", "higher_order", "checkpoint", "frozen",
    "switched_off", "not_storable", "version", "other",
]  # fmt: skip


class CacheBypass(msgspec.Struct):
    """Graphs of a compile that a cache neither looked up nor kept; `said` are torch's words. `location` is the line of
    the operation that it refused, where one did it. `count` is 0 for one that it would refuse next in the same graph.
    """

    cache: CacheName
    reason: BypassReason
    said: Quote = ""
    count: int = 1
    location: Location | None = None


class CompileFailure(msgspec.Struct):
    """What raised while a frame was compiled: the `exception`, what torch tells of it, and what it hints at.

    `location` is the innermost line of the program that was being traced, or that made the operation at which a backend
    failed; None where torch names none. `stack` leads there from the compiled function. `backend` is the one that
    failed, `operation` its node in the graph. `eager` says how the same call ended without compiling: what it raised,
    "" where it ran, None where it was not made again.
    """

    exception: Name = ""
    message: ErrorText = ""
    hints: list[Quote] = []
    location: Location | None = None
    stack: list[Location] = []
    backend: Name = ""
    eager: ErrorText | None = None
    operation: Name = ""


class Compilation(msgspec.Struct):
    """One attempt of Dynamo to compile a frame; `seconds` holds inclusive phase times under their own names.

    `exclusive` holds what each phase took without those inside it. `began` counts from the start of the run.
    `breaks` are the ids of the graph breaks that it met.
    `module` is what the program calls the module whose code this is, `instance` which of the modules of the run it is.
    `raised` is the line whose exception ended the attempt.
    """

    compile_id: Word
    process: int
    epoch: int
    location: Location
    status: CompilationStatus
    seconds: dict[Word, float] = {}
    cache: dict[Word, int] = {}
    function: Name = ""
    ops: int | None = None
    guards: int | None = None
    resumes: bool = False
    caller: Location | None = None
    reason: BreakType = ""
    began: float | None = None
    exclusive: dict[Word, float] = {}
    backward: list[BackwardCompile] = []
    cache_bypasses: list[CacheBypass] = []
    breaks: list[Word] = []
    module: Quote = ""
    instance: int | None = None
    memory: CompileMemory | None = None
    failure: CompileFailure | None = None
    raised: Location | None = None

    @property
    def key(self) -> CompilationKey:
        return self.process, self.epoch, self.compile_id

    @property
    def whole_seconds(self) -> float | None:
        """All that it took, its backward graph's compile too. Phases are inclusive: one holds all others."""
        if not self.seconds:
            return None
        forward = [seconds for name, seconds in self.seconds.items() if name != "backward"]
        return self.seconds.get("total", max(forward, default=0.0)) + self.seconds.get("backward", 0.0)

    @property
    def name(self) -> str:
        return self.function or self.location.function


class LeftInEager(msgspec.Struct):
    """A function that runs in eager because of a break in it, or in one that it calls, at `location`; `around` is what
    that line stands in. Nothing after that was traced: `behind` are lines of it that look at values or print.
    """

    location: Location
    around: Literal["loop", "with", "try", ""] = ""
    compile_id: Word = ""
    behind: list[Location] = []


class GraphBreak(msgspec.Struct):
    """One graph break, however many frames, callers, loops or recompiles repeated it.

    `location` is the innermost line outside torch; `stack` is outermost first. `callers` are the distinct
    lines from which the break was reached. `occurrences` counts the raw events folded in. `consequence` is
    torch's name for what the break led to (a loop makes the whole frame eager). `expression` is the source
    that the columns span, `block` that of the statement and of those that follow it in its block. `compile_seconds`
    went into the rests of functions that it cut off, and into attempts that it ended; None where torch does not tell.
    `left_in_eager` are its function and callers of that, where they run in eager for it.
    """

    id: Word
    gb_id: Word | None
    gb_type: BreakType
    effect: Effect
    location: Location
    stack: list[Location]
    explanation: Quote = ""
    hints: list[Quote] = []
    url: Name = ""
    occurrences: int = 1
    compile_ids: list[Word] = []
    process: int = 0
    epoch: int = 0
    context: Quote = ""
    consequence: BreakType = ""
    callers: list[Location] = []
    snippet: Annotated[Snippet | None, Holds.SOURCE] = None
    expression: Source = ""
    block: Source = ""
    processes: list[int] = []
    compile_seconds: float | None = None
    left_in_eager: Annotated[list[LeftInEager], Holds.SOURCE] = []


class FailedGuard(msgspec.Struct):
    """A guard that failed, of the version `previous` of a function."""

    previous: Word | None
    cause: Cause
    guard: Quote = ""
    source: Quote | None = None
    expected: Quote | None = None
    actual: Quote | None = None


class Recompile(msgspec.Struct):
    """One compile more of a function, and a guard that failed of the version that the call came nearest to, with the
    fewest changes; `also` are the others of that version.

    `forced_by` is the line that made a dynamic size a constant, or that asked something about it, and `read_at` the one
    that read the value that changed, where torch tells. `last_batch_of` is the class of the dataset of which the last
    batch, smaller than the others, did not fit. `owner` is the class of the object that holds the value, where that is
    a library's: `library` is the package, or "optimizer". `threads`: every guard held when torch looked, as so many
    threads compiled the function at once. `result_of` is the graph break that the value came out of.
    """

    id: Word
    compile_id: Word
    previous: Word | None
    location: Location
    cause: Cause
    source: Quote | None = None
    expected: Quote | None = None
    actual: Quote | None = None
    guard: Quote = ""
    change: Word | None = None
    seconds: float | None = None
    process: int = 0
    epoch: int = 0
    forced_by: Location | None = None
    read_at: Location | None = None
    last_batch_of: Quote = ""
    also: list[FailedGuard] = []
    owner: Quote = ""
    library: Quote = ""
    threads: int = 0
    result_of: Location | None = None

    @property
    def key(self) -> CompilationKey:
        return self.process, self.epoch, self.compile_id


class ForcedSize(msgspec.Struct):
    """A dynamic size or number that a line of the program made a constant; `dimension` is None for a number.

    `values` are the constants, one for each version compiled. `refused`: it was marked with mark_dynamic, so torch
    raised an error. `recompiles` are those that another value set off.
    """

    id: Word
    location: Location
    source: Quote | None
    dimension: int | None = None
    values: list[Number] = []
    refused: bool = False
    compile_ids: list[Word] = []
    recompiles: list[Word] = []
    process: int = 0


class Candidate(msgspec.Struct):
    """What a program that compiles nothing called and could compile: a module called from outside of every other, a
    method called in place of forward, a function that calls modules.

    `name` is for `--compile`, "" where it has none. `seconds` are those of its calls without compiling, `share` their
    part of the program's. `reason` says why calls were not compiled.
    """

    kind: CandidateKind
    name: Quote = ""
    class_name: Name = ""
    location: Location | None = None
    calls: int | None = None
    parameters: int | None = None
    seconds: float | None = None
    share: float | None = None
    compiled: bool = False
    reason: CandidateReason = ""
    error: Message = ""


class Region(msgspec.Struct):
    """A part of a compiled module that no graph break reaches, so that it compiles whole by itself.

    `root` is what the program calls the module, `path` leads from there to the part. `count` parts of one class stand
    in lists: `pattern` is the path of all of them, `layers.*.1`, with `*` for every part of a list, `0,2` for some of
    it, and `"0"` for a number that is a name. `share` is what they take of an eager call of the root, None where that
    was not measured; `parameter_share` is their part of its parameters. `location` is its forward; `of_torch`: that is
    torch's own. Where the program compiles the root itself, or a function `within` which it is called, `compiled` is
    where, and `arguments` are what it gives.
    """

    root: Quote
    path: Quote
    class_name: Name = ""
    location: Location | None = None
    of_torch: bool = False
    count: int = 1
    parameters: int = 0
    share: float | None = None
    parameter_share: float = 0.0
    pattern: Quote = ""
    arguments: Source = ""
    compiled: Location | None = None
    within: Name = ""


SkipReason = Literal["dispatch_mode", "skip_list", "disabled", "switched_off", "generated", "no_tensors", "other"]


class SkippedFrame(msgspec.Struct):
    """A function that torch left in eager without a graph break, once for each reason.

    `entry`: it was given to torch.compile itself; `tensors`: it was called with tensors or modules. `count` is how
    often torch decided so; calls of a function that is left out already are seen by nobody.
    """

    id: Word
    location: Location
    reason: SkipReason
    explanation: Quote = ""
    entry: bool = False
    tensors: bool = False
    count: int = 1
    process: int = 0


class LateHook(msgspec.Struct):
    """A line that registers hooks, by `method`, on modules of a class that code which is compiled already runs: that
    code never runs them. `count` is how many it registered.
    """

    location: Location
    method: Word
    class_name: Name = ""
    count: int = 0
    process: int = 0


class CalledPart(msgspec.Struct):
    """A part of a module, by its path, empty for the module itself. `of_torch`: its forward is torch's own code, which
    `compile()` of the part does not compile.
    """

    path: Name
    calls: int = 0
    of_torch: bool = False


class UncompiledMethod(msgspec.Struct):
    """A method called on what torch.compile made of a module, which ran in eager. Its first call called `parts`, for
    `seconds`; `compiled` is where the module was compiled, by `statement`.
    """

    location: Location
    method: Name
    class_name: Name = ""
    parts: list[CalledPart] = []
    seconds: float = 0.0
    call: Source = ""
    compiled: Location | None = None
    statement: Source = ""
    process: int = 0


class OutsideEffect(msgspec.Struct):
    """What a line of the program did to the world outside of its process: `action` ("opens", "connects to", ...) and to
    what. Each is listed once, however often it happened.
    """

    action: Word
    target: Argument
    location: Location | None = None

    def __str__(self) -> str:
        """In one line: `note` (m.py:6) opens rows.db."""
        place = self.location
        if place is None:
            return f"its code {self.action} {self.target}"
        where = f"`{place.function}` ({place.short})" if place.function.isidentifier() else place.short
        return f"{where} {self.action} {self.target}"


class Capture(msgspec.Struct):
    """How far the recording can be trusted: what was lost, and how the calls came about.

    `mode` "in_place": the program compiles nothing, its modules were compiled in its own calls, `recorded_calls` of
    them. "block": it is of a block of the program, by `dynalyze.record()`; the target's `spec` is its place. `left_out`
    is where the program itself calls torch.compile, which compiled nothing under `--compile`; `static` where it does
    with `dynamic=False`.
    """

    events: int = 0
    unreadable_lines: int = 0
    listener_errors: list[Message] = []
    mode: Literal[
        "observed", "in_place", "examples", "object", "transformers", "library", "none", "block"
    ] = "observed"  # fmt: skip
    recorded_calls: int = 0
    replayed_calls: int = 0
    outside_effects: list[OutsideEffect] = []
    left_out: list[Location] = []
    static: list[Location] = []
    notes: list[Message] = []


class Report(msgspec.Struct):
    """A whole report.

    `settings` are values of torch, under torch's own dotted names, as they were when the first frame was compiled.
    `folder` is the working directory of the run, or of what read its logs; "" where it is not known. `fix_command` is
    the command line of `dynalyze fix` for the same target, without --only; empty where it cannot be given.
    `answers_unchecked` is why `explain` has compared no answers.
    """

    dynalyze: Word
    created: Word
    command: CommandLine
    environment: Settings
    target: Target
    outcome: Outcome
    processes: list[Process] = []
    compilations: list[Compilation] = []
    graph_breaks: list[GraphBreak] = []
    recompiles: list[Recompile] = []
    skipped_frames: list[SkippedFrame] = []
    late_hooks: list[LateHook] = []
    uncompiled_methods: list[UncompiledMethod] = []
    candidates: list[Candidate] = []
    regions: Annotated[list[Region], Holds.SOURCE] = []
    forced_sizes: list[ForcedSize] = []
    graphs: list[Graph] = []
    kernels: list[Kernel] = []
    traced_files: list[TracedFile] = []
    traced_hash: Word = ""
    sources: Annotated[list[SourceFile], Holds.SOURCE] = []
    accuracy: list[Accuracy] = []
    answers_unchecked: Message = ""
    policy: PolicyVerdict | None = None
    measurements: list[Measurement] = []
    findings: Annotated[list[Finding], Holds.SOURCE] = []
    capture: Capture = msgspec.field(default_factory=Capture)
    settings: Settings = {}
    modules: list[ModuleFacts] = []
    attention: list[AttentionCall] = []
    bisections: list[Bisection] = []
    operators: list[OperatorCheck] = []
    warmup: Warmup | None = None
    caches: Caches | None = None
    attention_matrix: AttentionMatrix | None = None
    plan: CompilePlan | None = None
    folder: FilePath = ""
    fixes: list[Fix] = []
    fixed: Fixed | None = None
    fix_command: CommandLine = []
    schema_version: int = SCHEMA_VERSION


if not TYPE_CHECKING:  # With the parts of features; their types import this module.
    Report = msgspec.defstruct(
        "Report", registry.fields_of("Report"), bases=(Report,), module=__name__, namespace={"__doc__": Report.__doc__}
    )


def printable(text: str) -> str:
    """`text` as JSON can carry it: undecodable bytes of a file name or an argument become question marks."""
    return text.encode(errors="replace").decode()
