"""The typed part of the report that holds measurements: what `dynalyze bench` found, with every raw sample.

Times are in milliseconds for calls and in seconds for start-up, sizes in bytes. A number that was not measured is
None, never 0. A measurement that is not `valid` carries its reason and no latency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from dynalyze import registry
from dynalyze.report.code import Location
from dynalyze.report.intervals import Interval as Interval
from dynalyze.report.sensitivity import Dtype, Message, Name, Quote, Settings, Word

Validity = Literal["valid", "invalid", "failed"]
"""failed: it could not be run at all; invalid: it ran, but what was timed is not what was asked for;
valid with a reason and without times: the benchmark ended before it was timed."""

SpeedVerdict = Literal["faster", "slower", "no difference shown"]
AccuracyVerdict = Literal["equal", "benign", "rounding only", "suspicious", "not comparable"]


class Latency(msgspec.Struct):
    """Milliseconds of one pass, over all samples of all processes. A single sample has no `sd`."""

    p50: float
    p90: float
    p95: float
    p99: float
    mean: float
    sd: float | None
    samples: int


class Pair(msgspec.Struct):
    """Raw samples (milliseconds of one pass) of two processes that lived at the same time and took turns."""

    eager: list[float]
    compiled: list[float]


class Speedup(msgspec.Struct):
    """Eager time by compiled time. `floor` is how far from 1 two eager processes alone could be: the noise floor.

    0.12: one of two equals may seem 1.12 times as fast as the other. None: fewer than two pairs of eager processes told
    of it, and the verdict is "no difference shown". `ratio` is already widened to the noise floor. `pairs` is the
    number of process pairs; under five, too, the verdict is "no difference shown", whatever the interval. With
    `one_process` they are turns of eager and compiled in the program's own process, and `floor` is that of eager there.
    """

    ratio: Interval
    verdict: SpeedVerdict
    floor: float | None
    pairs: int
    one_process: bool = False


class StartUp(msgspec.Struct):
    """What it takes until calls are fast: seconds to import torch, with the library of an `hf:` target or the like, and
    to build the model, then each first call.

    `cold_calls_ms` were made with empty caches, `warm_calls_ms` in a new process with the caches that the first one
    left, `eager_calls_ms` without compiling. `steady_after` counts the cold calls before the steady state; None where
    it was not reached. Without such a process `compile_seconds` is what compiling took in the run that was explained,
    if that had empty caches. `phases` are torch's own times in seconds for the cold process, `cache` its counts.
    """

    import_seconds: float | None = None
    load_seconds: float | None = None
    cold_calls_ms: list[float] = []
    warm_calls_ms: list[float] = []
    eager_calls_ms: list[float] = []
    steady_after: int | None = None
    compile_seconds: float | None = None
    phases: dict[Word, float] = {}
    cache: dict[Word, int] = {}
    warm_cache: dict[Word, int] = {}


class BreakEven(msgspec.Struct):
    """Passes after which compiling has paid for itself; None with the reason where it never does, or is not known."""

    passes: float | None = None
    low: float | None = None
    high: float | None = None
    reason: Word = ""


class Memory(msgspec.Struct):
    """Peaks in bytes, taken in a process of their own. `kind` says of what.

    `ratio` is the steady peak by that of eager.
    """

    kind: Literal["cuda", "rss", "process"]
    steady_peak: int
    compile_peak: int | None = None
    reserved_peak: int | None = None
    eager_steady_peak: int | None = None
    ratio: float | None = None


class Counts(msgspec.Struct):
    """What torch counted in the cold process: the grounds on which a measurement is valid. `eager_calls` are those of a
    round that ran no compiled code, in the timed process that has most.
    """

    compiled_frames: int = 0
    eager_frames: int = 0
    eager_calls: int = 0
    graph_breaks: int = 0
    graphs: int = 0
    recompiles: int = 0
    recompiles_while_timing: int = 0
    cudagraph_replays: int | None = None
    cudagraph_skips: int = 0


class KeptTensor(msgspec.Struct):
    """A tensor that is kept for backward, `bytes` of all that it keeps alive. `op` made it; `module` is the one that
    ran, in eager.
    """

    bytes: int
    dtype: Dtype = ""
    shape: list[int] = []
    op: Name = ""
    module: Name = ""


class KeptLine(msgspec.Struct):
    """What one line of the program keeps for backward, in eager and compiled, the largest tensors of each; `recomputed`
    are its operations that the compiled backward computes again. Without a `place` it is not known which line.
    """

    place: Location | None
    eager_bytes: int = 0
    compiled_bytes: int = 0
    eager: list[KeptTensor] = []
    compiled: list[KeptTensor] = []
    recomputed: list[Name] = []


StepPhase = Literal["forward", "backward"]


class StepMemory(msgspec.Struct):
    """Bytes of one training step, eager and compiled, without parameters, inputs and optimizer.

    `eager_kept` and `compiled_kept` are held for backward when the forward has ended. The peaks are the most that
    torch's allocators gave out at once since the step began, gradients included, and whether that was in the forward or
    in the backward. `lines` come with the largest difference first. `problem` is why nothing was measured.
    """

    eager_kept: int = 0
    compiled_kept: int = 0
    eager_peak: int = 0
    compiled_peak: int = 0
    eager_peak_in: StepPhase = "forward"
    compiled_peak_in: StepPhase = "forward"
    lines: list[KeptLine] = []
    lines_omitted: int = 0
    problem: Message = ""


class Measurement(msgspec.Struct):
    """One configuration of one workload. A pass makes every recorded call once, in order.

    `calls` is the number of calls in a pass, `items` the samples (batch) and `tokens` the tokens that a pass handles.
    `throughput` is per second, by name. `options` are the arguments of the configuration. `shape` are the sizes that
    were asked for by name.
    """

    configuration: Name
    phase: Word = "forward"
    status: Validity = "valid"
    reason: Message = ""
    options: Settings = {}
    batch: int | None = None
    sequence: int | None = None
    dtype: Name = ""
    device: Name = ""
    calls: int = 1
    items: float | None = None
    tokens: float | None = None
    threads: int | None = None
    latency_ms: Latency | None = None
    eager_latency_ms: Latency | None = None
    samples: list[Pair] = []
    speedup: Speedup | None = None
    startup: StartUp | None = None
    break_even: BreakEven | None = None
    memory: Memory | None = None
    throughput: dict[Word, float] = {}
    counts: Counts | None = None
    notes: list[Message] = []
    shape: dict[Name, int] = {}
    step_memory: StepMemory | None = None


if not TYPE_CHECKING:  # With the parts of features, None where they measured nothing; their types import this module.
    Measurement = msgspec.defstruct(
        "Measurement", registry.fields_of("Measurement"), bases=(Measurement,), module=__name__,
        namespace={"__doc__": Measurement.__doc__},
    )  # fmt: skip


class TensorAccuracy(msgspec.Struct):
    """One output or gradient: root mean square errors against fp64, None where fp64 could not run. `eager_value` and
    `compiled_value` are one number of it, where the two are furthest apart; None where it is equal.
    """

    name: Quote
    kind: Literal["output", "gradient"]
    verdict: AccuracyVerdict
    eager_rmse: float | None = None
    compiled_rmse: float | None = None
    emulated_rmse: float | None = None
    max_difference: float | None = None
    cosine: float | None = None
    dtype: Name = ""
    compiled_dtype: Name = ""
    elements: int = 0
    nonfinite: int = 0
    eager_value: float | None = None
    compiled_value: float | None = None


class BrokenContract(msgspec.Struct):
    """What eager does and compiled does not, other than values: `contract` is one of capture/bench/contracts.py."""

    contract: Word
    place: Quote
    eager: Quote
    compiled: Quote


class InputVariant(msgspec.Struct):
    """The accuracy test on other inputs of the same meaning: `name` is one of capture/bench/protocol.py VARIANTS.

    left out: eager refuses them, with the `reason`; not tried: the time was up.
    """

    name: Name
    verdict: AccuracyVerdict | Literal["left out", "not tried"]
    reason: Quote = ""
    contracts: list[BrokenContract] = []


class Accuracy(msgspec.Struct):
    """The fp64-anchored test of one configuration; `verdict` is its worst tensor's, suspicious for a broken contract.

    `deterministic` is whether eager gave the same twice, `same_bits` whether compiled gave eager's values to the bit
    (None where eager does not itself); `argmax_flips` the share of rows of the logits whose largest
    entry differs between eager and compiled. `calls` were compared, 0 where that is not known. With `draws` the model
    draws random numbers, and compiled drew those of eager for the test (`fallback_random`).
    """

    configuration: Name
    phase: Word = "forward"
    verdict: AccuracyVerdict = "not comparable"
    reason: Quote = ""
    anchored: bool = False
    deterministic: bool | None = None
    argmax_flips: float | None = None
    batch: int | None = None
    sequence: int | None = None
    tensors: list[TensorAccuracy] = []
    tensors_omitted: int = 0
    contracts: list[BrokenContract] = []
    shape: dict[Name, int] = {}
    variants: list[InputVariant] = []
    same_bits: bool | None = None
    calls: int = 0
    draws: bool = False
