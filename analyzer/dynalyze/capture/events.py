"""What the child reports, one dataclass an event: emitted in the user's interpreter, and read back by the parent.

Unknown fields and unknown events are ignored by the reader: a newer child stays readable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

from dynalyze.capture.wire import CandidateKind, CandidateReason

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # Python 3.10 has none.
    dataclass_transform = lambda **_: lambda cls: cls  # noqa: E731

# Numbers with the least and the greatest value that the reader lets through: whatever is computed of these is a number
# too. Other ones were damaged, or made to harm.
Whole = Annotated[int, (-(2**53), 2**53)]
Count = Annotated[int, (0, 2**53)]
Length = Annotated[float, (0, 1e18)]

KINDS: dict[str, type[Event]] = {}
"""Every kind of event, by the name that its lines bear."""


@dataclass(frozen=True)
class Frame:
    """One frame of a stack; columns are UTF-8 byte offsets as Python's code objects give them."""

    file: str = ""
    line: Whole = 0
    name: str = ""
    column: Whole | None = None
    end_column: Whole | None = None


@dataclass(frozen=True)
class FailedCheck:
    """The text of a guard that failed; its values were read live.

    `owner` is the class of the object that holds the value, and `library` whether that class is no part of the program:
    a package's, or "optimizer".
    """

    text: str = ""
    expected: str | None = None
    actual: str | None = None
    owner: str = ""
    library: str = ""


@dataclass(frozen=True)
class FailedVersion:
    """What one version of a function, by its compile id, was asked of a call and did not hold."""

    id: str = ""
    failed: list[FailedCheck] = field(default_factory=list)


@dataclass_transform(field_specifiers=(field,))
@dataclass(kw_only=True)
class Event:
    """`at`: seconds since 1970, as it is written. Each class below it is a dataclass too."""

    tag = ""
    at: Length = 0.0

    def __init_subclass__(cls, tag: str = "", *, kw_only: bool = False) -> None:
        dataclass(cls, kw_only=kw_only)
        if tag:
            cls.tag = tag
            KINDS[tag] = cls


Emit: TypeAlias = Callable[[Event], None]
"""Writes an event; never raises."""


class CompilerEvent(Event, kw_only=True):
    """Something that belongs to one compile id; `epoch` counts the calls of torch._dynamo.reset()."""

    id: str = ""
    epoch: Whole = 0
    attempt: Whole = 0
    rank: Whole | None = None

    @property
    def key(self) -> tuple[int, str]:
        """Epoch and compile id: together they name one compilation of a process."""
        return self.epoch, self.id


class ProcessStarted(Event, tag="process"):
    """The first event of each process; only what the environment allowlist permits."""

    pid: Whole
    parent: Whole = 0
    main: bool = False
    rank: Whole | None = None
    command: list[str] = field(default_factory=list)
    python: str = ""
    implementation: str = ""
    platform: str = ""


class TorchLoaded(Event, tag="torch"):
    """The torch of a process. `gpu` is whether the machine shows a device that it is built for; None: not known."""

    version: str
    folder: str = ""
    cuda: str | None = None
    hip: str | None = None
    gpu: bool | None = None
    python: str = ""
    system: str = ""
    machine: str = ""
    cores: Whole | None = None
    packages: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


class CompileCall(Event, tag="compile_call"):
    """A call of torch.compile by the program. `overridden` are its own arguments in whose place `--backend` came, and
    `module` is a token of the module. With `left_out` it compiled nothing, for `--compile` chooses what is.
    """

    kind: str = ""
    name: str = ""
    file: str = ""
    line: Whole = 0
    function: str = ""
    options: dict[str, str] = field(default_factory=dict)
    overridden: dict[str, str] = field(default_factory=dict)
    module: Whole = 0
    left_out: bool = False


class CompileStarted(CompilerEvent, tag="compile_start"):
    """`owner` is the class of the module whose code it is, and `module` a token of that object. `names` are what the
    program calls this and the other modules that this code was compiled for, by their tokens. `thread` is one of the
    thread that compiles.
    """

    code: Frame | None = None
    thread: int = 0
    stack: list[Frame] = field(default_factory=list)
    owner: str = ""
    module: int = 0
    names: dict[int, list[str]] = field(default_factory=dict)


class Metrics(TypedDict, total=False):
    """What torch measured of one compile, under its own names: what facts are made of. Times end in their unit."""

    co_name: str
    has_guarded_code: bool
    fail_type: str
    fail_reason: str
    cudagraph_skip_reason: str
    start_time_us: Length
    duration_us: Length
    dynamo_cumulative_compile_time_us: Length
    aot_autograd_cumulative_compile_time_us: Length
    inductor_cumulative_compile_time_us: Length
    inductor_code_gen_cumulative_compile_time_us: Length
    entire_frame_compile_time_s: Length
    backend_compile_time_s: Length
    inductor_compile_time_s: Length
    code_gen_time_s: Length
    graph_op_count: Count
    guard_count: Count
    inductor_fx_local_cache_hit_count: Count
    inductor_fx_local_cache_miss_count: Count
    inductor_fx_remote_cache_hit_count: Count
    inductor_fx_remote_cache_miss_count: Count
    aotautograd_local_cache_hit_count: Count
    aotautograd_local_cache_miss_count: Count
    aotautograd_remote_cache_hit_count: Count
    aotautograd_remote_cache_miss_count: Count
    structured_logging_overhead_us: Length  # For benchmarks/overhead.py.


@dataclass(frozen=True)
class CompileMemorySeen:
    """Bytes: by how much the resident memory of the process rose at most while it compiled, and in the end; what the
    processes held that it started for it.
    """

    added: Whole = 0
    kept: Whole = 0
    others: Whole = 0


class CompileEnded(CompilerEvent, tag="compile_end"):
    """`own` are the seconds of each phase without those inside it, where torch tells when its steps begin and end."""

    backward: bool = False
    metrics: Metrics = field(default_factory=Metrics)
    own: dict[str, Length] = field(default_factory=dict)
    memory: CompileMemorySeen | None = None


class BreakSeen(CompilerEvent, tag="break"):
    """A break as torch logged it. `untraced`: raised before tracing began, with the refused frame in `inside`."""

    text: str = ""
    message: str = ""
    type: str | None = None
    above: list[Frame] = field(default_factory=list)
    inside: list[Frame] = field(default_factory=list)
    untraced: bool = False
    refused: bool = False


class ErrorSeen(CompilerEvent, tag="error"):
    """A compile that ended in an exception. `logged`: torch logged it as a break already."""

    text: str = ""
    message: str = ""
    type: str | None = None
    exception: str = ""
    logged: bool = False
    refused: bool | None = None
    above: list[Frame] = field(default_factory=list)
    inside: list[Frame] = field(default_factory=list)


class MadeInEager(Event, tag="made_in_eager"):
    """The call whose compile failed last was made again in eager: `error` is what it raised, "" where it ran."""

    error: str = ""


class RecompileSeen(CompilerEvent, tag="recompile"):
    """The first guard that failed of each version as torch tells it, and where they are in reach all that failed, the
    newest version first. `expected` and `actual` are of the very first. `call` tells outermost calls apart, roughly.

    `last_batch_of` is the class of the dataset of which the last, smaller batch did not fit.
    """

    text: str = ""
    versions: list[FailedVersion] = field(default_factory=list)
    expected: str | None = None
    actual: str | None = None
    call: int = 0
    last_batch_of: str = ""


class SpecializedSeen(CompilerEvent, tag="specialized"):
    """A symbol that became a constant; `stack` is the program's, outermost first, its last line did it."""

    sources: list[str] = field(default_factory=list)
    value: str = ""
    stack: list[Frame] = field(default_factory=list)


class CacheBypassed(CompilerEvent, tag="cache_bypass"):
    """A graph that a cache neither looked up nor kept; `cache` is autograd or fx_graph. `place` is the operation's that
    it refused, where there is one. `next_one`: that has no line, `place` is the next operation's.
    `further`: another operation of a graph that was refused already, which would be next.
    """

    cache: str = ""
    reason: str = ""
    place: Frame | None = None
    next_one: bool = False
    further: bool = False


class CudagraphSkipped(CompilerEvent, tag="cudagraph_skip"):
    """A graph for which Inductor makes no CUDA graph, as it is compiled or as it runs; `reason` are torch's words."""

    reason: str = ""


class CacheLooked(CompilerEvent, tag="cache"):
    """A cache was asked: `state` is hit, miss or, of the profile (pgo), stored. `detail` are torch's own words for it.

    `digest` is the key, `components` are its parts: name, digest and value. Those that are settings stand in texts of
    their own, which `settings` names, see RunLog.read_text. `taken` are the seconds of the compile, `saved` those that
    a hit saved.
    """

    cache: str = ""
    state: str = ""
    digest: str = ""
    detail: str = ""
    components: list[tuple[str, str, str]] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    taken: Length | None = None
    saved: Length | None = None


class CacheVariables(Event, tag="cache_variables"):
    """Variables of the environment that components of cache keys have their values from: `NAME=value` by component."""

    values: dict[str, str] = field(default_factory=dict)


class GraphSeen(CompilerEvent, tag="graph"):
    """The program at one stage: dynamo, joint, forward, backward, inference, post_grad, output_code, runnable, or
    transformed (the bytecode after Dynamo). `text` names where its code can be read, see RunLog.read_text.

    kernel_nodes and kernel_stacks tell, as JSON, where the kernels of the output code before them came from.
    """

    stage: str = "dynamo"
    text: str = ""


class TracedSeen(CompilerEvent, tag="traced"):
    functions: list[tuple[str, str, Whole]] = field(default_factory=list)


class HookSeen(Event, tag="hook"):
    """A hook registered at `code` by `method` on a module that is compiled already, by the epoch and id of each of
    `compiles`: "0 0/0". `met`: what is compiled since has the module with hook `number`.
    """

    code: Frame = Frame()
    method: str = ""
    class_name: str = ""
    compiles: list[str] = field(default_factory=list)
    number: Whole = 0
    met: bool = False


@dataclass
class PartSeen:
    """A part of a module, by its path, "" for the module itself. `of_torch`: its forward is torch's own code."""

    path: str = ""
    calls: Whole = 0
    of_torch: bool = False


class MethodSeen(Event, tag="method"):
    """A method of a module of a class, called at `code` on what torch.compile made of the module. In that first call
    these parts of the module ran in eager, for so many seconds, and nothing else of it did.
    """

    code: Frame = Frame()
    method: str = ""
    class_name: str = ""
    parts: list[PartSeen] = field(default_factory=list)
    seconds: Length = 0.0
    module: Whole = 0


class SkippedSeen(Event, tag="skipped"):
    """A function that was left in eager without a graph break, for the `count`th time. `entry`: torch.compile was
    given this function; `tensors`: it was called with tensors.
    """

    code: Frame = Frame()
    reason: str = ""
    owner: str = ""
    entry: bool = False
    tensors: bool = False
    count: Whole = 1


class Ending(Event):
    """How a program ended: its exit status as the shell would see it, and what it raised."""

    exit_status: Whole | None = None
    exception: str = ""
    message: str = ""
    file: str = ""
    line: Whole = 0
    stopped: bool = False


class ProgramEnded(Ending, tag="program_end"):
    """The target's own code is through; what dynalyze compiles itself may follow. Where asked for and there is torch,
    `left` is how it leaves the process and `names` are functions and values of its modules (inspecting/settings.py).
    """

    left: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


class TargetEnded(Ending, tag="target_end"):
    """All is through."""


class Misused(Event, tag="usage"):
    """The user's mistake, found only in the child."""

    message: str


@dataclass
class Wrapped:
    """A result of torch.compile in a run where nothing was compiled.

    `in_place_of_torch`: made by `module.compile()` of a module whose forward is torch's own code.
    """

    kind: str = ""
    name: str = ""
    file: str = ""
    line: Whole = 0
    called: bool = False
    bypassed: bool = False
    in_place_of_torch: bool = False


class NothingCompiled(Event, tag="nothing_compiled"):
    """The program called torch.compile, or switched it off, and nothing was compiled."""

    wrapped: list[Wrapped] = field(default_factory=list)
    stance: str | None = None
    disabled: bool = False
    variable: str = ""


@dataclass
class ModuleClass:
    name: str
    init: str = ""
    forward: str = ""
    ready: bool = False
    inputs: Whole = 1


class Definitions(Event, tag="definitions"):
    """The program compiled nothing and called no module."""

    spec: str = ""
    modules: list[ModuleClass] = field(default_factory=list)
    has_model: bool = False


@dataclass
class CandidateEntry:
    """A row of the table of all that could have been compiled, as the child counts it; see report.Candidate."""

    kind: CandidateKind = "module"
    name: str = ""
    class_name: str = ""
    file: str = ""
    line: Whole = 0
    function: str = ""
    calls: Whole | None = None
    parameters: Whole | None = None
    seconds: Length | None = None
    compiled: bool = False
    reason: CandidateReason = ""
    error: str = ""


class InPlaceStarted(Event, tag="in_place"):
    """The program has compiled nothing so far: from here on its modules are compiled in its own calls."""


class InPlaceDropped(Event, tag="in_place_dropped"):
    """The program compiles by itself after all: what was compiled in place is not to count."""


class InPlaceFailed(Event, tag="in_place_failed"):
    """A call raised under compile, and ran in eager then, as all later calls of this module."""

    name: str = ""
    class_name: str = ""
    error: str = ""


class CandidateSeen(Event, tag="candidate"):
    """The first call of a module from outside of every other."""

    entry: CandidateEntry


class CandidatesCounted(Event, tag="candidates"):
    """All that the program called, with counts; `seconds` is what the program took so far, without compiling."""

    seconds: Length = 0.0
    entries: list[CandidateEntry] = field(default_factory=list)


@dataclass
class TreeClass:
    """A class of a module tree; `layer`: one of torch's layers, or derived from one; `code` are the lines of its
    methods: file, first and last line; `forward` is where that begins, `fed` whether it takes anything. The parts of an
    `indexed` one are reached by their numbers.
    """

    name: str
    of_torch: bool = False
    layer: bool = False
    callable: bool = True
    code: list[tuple[str, Whole, Whole]] = field(default_factory=list)
    forward: tuple[str, Whole] | None = None
    fed: bool = True
    indexed: bool = True


@dataclass
class TreePart:
    """A module below another; `kind` is the number of its class, `seconds` what it took in one eager call."""

    path: str
    kind: Whole
    parameters: Whole = 0
    seconds: Length | None = None


class ModuleTree(Event, tag="module_tree"):
    """A module that was compiled, with all its parts; where the program did so itself, with which `arguments`, and in
    which line. `within` is the function that was compiled in its place, which calls it.
    """

    name: str = ""
    within: str = ""
    arguments: str = ""
    file: str = ""
    line: Whole = 0
    function: str = ""
    classes: list[TreeClass] = field(default_factory=list)
    parts: list[TreePart] = field(default_factory=list)


class ObjectStarted(Event, tag="object_start"):
    calls: Whole = 0
    notes: list[str] = field(default_factory=list)


class ObjectCall(Event, tag="object_call"):
    index: Whole = 0
    refused: str = ""


class OutsideEffectSeen(Event, tag="outside_effect"):
    """The program did something to the outside (side_effects.SideEffect); reported once for each kind and line."""

    what: str = ""
    target: str = ""
    file: str = ""
    line: Whole = 0
    function: str = ""


class BundleWritten(Event, tag="bundle"):
    """The program's calls were written for the processes that measure, or `error` says why not.

    Not written where the process left without Python's knowledge, as by os._exit.
    """

    file: str = ""
    digest: str = ""
    nbytes: Whole = 0
    seconds: Length = 0.0
    error: str = ""
    # The tensors hold more bytes than were to be copied.
    too_large: bool = False
    calls: Whole = 0
    backwards: Whole = 0
    # Whether the program gave arguments to torch.compile itself: there is a configuration "as written" then.
    written: bool = False
    # The arguments that it gave, those that are not torch's defaults, one dict for each of `names`.
    options: list[dict[str, Any]] = field(default_factory=list)
    # Why they cannot be used in another process; empty where they can.
    cannot_write: str = ""
    # All calls that it made: what was called, with what (as a text), how often.
    made: list[tuple[str, str, Whole]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sys_path: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    folder: str = ""


class TimedInTurns(Event, tag="timed_in_turns"):
    """The program's calls were timed in its own process, in eager and compiled in turn, or `problem` says why not.

    A turn is the milliseconds of passes of eager, of compiled, and of eager once more. `load` says of the work what a
    measuring process says of it, and so does `accuracy`, where the answers are equal.
    """

    load: dict[str, Any] = field(default_factory=dict)
    eager_calls_ms: list[float] = field(default_factory=list)
    calls_ms: list[float] = field(default_factory=list)
    steady_after: Whole | None = None
    turns: list[tuple[list[float], list[float], list[float]]] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    invalid: str = ""
    accuracy: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    problem: str = ""


class ModelBuilt(Event, tag="model_built"):
    """A model of transformers was built from its configuration. `inputs` are texts: shape and dtype."""

    class_name: str = ""
    family: str = ""
    parameters: Whole = 0
    seconds: Length = 0.0
    inputs: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class StageFailed(Event, tag="stage_failed"):
    """What went wrong before anything was compiled: the model could not be built, or its eager run failed.

    `stage` is "config", "model", "weights", "inputs" or "eager"; `file` and `line` are where it was raised.
    """

    stage: str = ""
    exception: str = ""
    message: str = ""
    file: str = ""
    line: Whole = 0
    out_of_memory: bool = False


class EagerCall(Event, tag="eager_call"):
    """The model ran once in eager before it was compiled."""

    seconds: Length = 0.0


class SettingsSeen(Event, tag="settings"):
    """Values of torch under its own dotted names, when the first frame was compiled."""

    values: dict[str, Any] = field(default_factory=dict)


class ModuleSeen(Event, tag="module"):
    """A module given to torch.compile; the last event of an `id` in a process counts. `facts` as in `model_facts`."""

    id: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


class WarmupCall(Event, tag="warmup_call"):
    """A call of the warm-up check begins: with the shape of this number, in one of its passes."""

    stage: str = ""
    shape: Whole = 0


class WarmupCalled(Event, tag="warmup_called"):
    """That call is over. The rest is from the last pass alone: the compiled versions that ran, each with a number,
    and the functions that ran uncompiled although they have such versions.
    """

    milliseconds: Length = 0.0
    error: str = ""
    versions: list[tuple[Whole, Frame]] = field(default_factory=list)
    in_eager: list[Frame] = field(default_factory=list)


class WarmupEnded(Event, tag="warmup_end"):
    """The warm-up check is through, or `error` ended it."""

    error: str = ""
    recompile_limit: Whole = 0
    cache: dict[str, Whole] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Lost(Event, tag="lost"):
    """The listener could not record something."""

    message: str = ""


class SourceSeen(Event, tag="source"):
    """A source file, as it was when it was imported.

    `text` names where its text can be read, see RunLog.read_text, and `sha256` is of its bytes; both "" where they were
    not kept, as for libraries. `stamp`: time of change in ns and size in bytes.
    """

    file: str = ""
    text: str = ""
    sha256: str = ""
    stamp: tuple[int, int] | None = None


class Reopened(Event, tag="reopened"):
    """The program had closed the file of events, as daemons close all they inherit; nothing was lost by that."""
