"""From the answers of the workers to the records of the report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from dynalyze.bench import stats
from dynalyze.bench.configurations import CUDA_GRAPH_MODES, EAGER, given
from dynalyze.bench.schedule import FirstCalls
from dynalyze.bench.workers import FailureKind
from dynalyze.capture.bench.commands import Checked, CheckedOperators, Loaded, Peaks, Warmed
from dynalyze.capture.bench.protocol import NOT_REPEATED, Configuration, Work
from dynalyze.capture.events import TimedInTurns
from dynalyze.capture.settings import Phase
from dynalyze.report.audit import OperatorCheck
from dynalyze.report.intervals import MeasuredPart
from dynalyze.report.measurements import Accuracy, Counts, Measurement, Memory, Pair, StartUp, StepMemory, Validity

SHARED = "timed in turns in the program's own process, which tells nothing of how processes differ"
TOO_LARGE = "too large for a copy in each of two processes"
SLOW_TO_TRACE = "too slow to trace for three pairs of processes"


@dataclass
class ConfigRun:
    """One configuration of one workload while it is measured; `pairs` of eager's row are the control.

    `problem` says why it has no times, `failure` is its kind; `untimed`: the benchmark ended before. `first` is None
    until it was run; `cold` is the same if that process started with empty caches. `checks` are the answers after each
    pair; `timed`: no more pairs are to come. `eager_samples` are those of all eager processes of the workload. `parts`
    are what features measured, by field; `recorded`: they were asked. `one_process`: its pairs are turns
    in one process.
    """

    configuration: Configuration
    work: Work
    first: FirstCalls | None = None
    cold: FirstCalls | None = None
    compile_seconds: float | None = None
    problem: str = ""
    failure: FailureKind | None = None
    untimed: str = ""
    timed: bool = False
    pairs: list[Pair] = field(default_factory=list)
    warm: Warmed | None = None
    memory: Peaks | None = None
    accuracy: dict[str, Any] | None = None
    compared: bool = False
    parts: dict[str, MeasuredPart] = field(default_factory=dict)
    recorded: bool = False
    one_process: bool = False
    step_memory: StepMemory | None = None
    operators: CheckedOperators | None = None
    checks: list[Checked] = field(default_factory=list)
    eager_samples: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def usable(self) -> bool:
        """Whether timing it makes sense."""
        return not self.problem and not self.invalid()

    @property
    def compiled(self) -> bool:
        """Whether anything compiled in its first calls, or in the program itself."""
        return self.one_process or (self.first is not None and bool(self.first.warm.counts.get("compiled_frames")))

    def fail(self, kind: FailureKind, problem: str) -> None:
        heading = "out of memory: " if kind == "out_of_memory" and "out of memory" not in problem.lower() else ""
        self.failure, self.problem = kind, heading + problem

    @property
    def load(self) -> Loaded:
        return self.first.load if self.first is not None else Loaded()

    @property
    def workload(self) -> dict[str, Any]:
        """What was run, by the field names of the records."""
        return {
            "configuration": self.name,
            "phase": self.work.phase,
            "batch": self.load.batch or self.work.batch,
            "sequence": self.load.sequence or self.work.sequence,
            "shape": dict(self.work.shape),
        }

    def counts(self) -> Counts | None:
        """Compiles in the process with empty caches, and recompiles and CUDA graph replays in all timed processes."""
        if self.first is None:
            return None
        counts = msgspec.convert(self.first.warm.counts, Counts)
        checks = [self.first.check, *self.checks]
        counts.recompiles_while_timing = sum(check.recompiles_while_timing for check in checks)
        counts.eager_calls = max(counts.eager_calls, *(check.steps_in_eager for check in checks))
        replays = [check.cudagraph_replays for check in checks if check.cudagraph_replays is not None]
        counts.cudagraph_replays = sum(replays) if replays else None
        return counts

    def invalid(self) -> str:
        """Why its times would mislead, from the first process that says so; "" if none does."""
        checks = [self.first.check, *self.checks] if self.first is not None else []
        return next((check.invalid for check in checks if check.invalid), "")


def environment(eager: ConfigRun) -> dict[str, Any]:
    """What the eager process found about torch and the machine, as a report's `environment`."""
    facts = dict(eager.load.environment)
    for name in ("at", "folder", "gpu"):
        facts.pop(name, None)
    if "version" in facts:
        facts["torch"] = facts.pop("version")
    known = {"device": eager.load.device or None, "threads": eager.load.threads}
    return {**facts, **{name: value for name, value in known.items() if value is not None}}


def measurement(row: ConfigRun, eager: ConfigRun) -> Measurement:
    """The record of a configuration, or of eager itself. It has times only if they are valid."""
    reason = row.problem or row.invalid()
    status: Validity = "invalid" if reason else "valid"
    reason = reason or row.untimed
    if row.problem and row.failure not in NOT_REPEATED:
        status = "failed"
    load, counts = row.load, row.counts()
    known: dict[str, Any] = {**row.workload, **row.parts}
    record = Measurement(
        **known, status=status, reason=reason, options=given(row.configuration), dtype=load.dtype, device=load.device,
        calls=load.calls, items=load.items, tokens=load.tokens, threads=load.threads, counts=counts,
        notes=list(row.notes), step_memory=row.step_memory,
    )  # fmt: skip
    if status != "failed" and (counts is None or counts.compiled_frames or not row.configuration.compile):
        record.startup = _startup(row, eager)
        record.memory = _memory(row, eager)
    if status == "valid":
        record.notes += _doubts(row, counts) if counts is not None else []
        _add_times(record, row, eager)
    return record


def rows_in_turns(event: TimedInTurns, configuration: Configuration, why: str) -> tuple[ConfigRun, ConfigRun]:
    """What a program's own process timed, with the reason for it: eager, and the configuration compared with it. Each
    turn stands for a pair of processes.
    """
    load = msgspec.convert(event.load, Loaded)
    work = Work(cast(Phase, load.phase or "forward"))
    eager, row = ConfigRun(replace(EAGER, autocast=configuration.autocast), work), ConfigRun(configuration, work)
    eager.first = FirstCalls(load, Warmed(event.eager_calls_ms), Checked())
    row.first = FirstCalls(load, Warmed(counts=event.counts), Checked(invalid=event.invalid))
    row.warm, row.accuracy = Warmed(event.calls_ms), event.accuracy or None
    for first, compiled, second in event.turns:
        row.pairs.append(Pair(first, compiled))
        eager.pairs.append(Pair(first, second))
        eager.eager_samples += first + second
    row.notes.append(f"{why}, so {SHARED}")
    eager.timed = row.timed = row.one_process = True
    return eager, row


def accuracy(row: ConfigRun) -> Accuracy | None:
    if row.accuracy is None:
        return None
    return msgspec.convert({**row.workload, **row.accuracy}, Accuracy)


def operators(eager: ConfigRun) -> list[OperatorCheck]:
    found = eager.operators.operators if eager.operators is not None else []
    return [msgspec.convert(each, OperatorCheck) for each in found]


def _add_times(record: Measurement, row: ConfigRun, eager: ConfigRun) -> None:
    is_eager = row is eager
    record.samples = row.pairs
    own = row.eager_samples if is_eager else [sample for pair in row.pairs for sample in pair.compiled]
    record.latency_ms = stats.latency(own)
    if not is_eager:
        # Of all eager processes, so that eager takes the same wherever it is shown.
        record.eager_latency_ms = stats.latency(eager.eager_samples)
        record.speedup = stats.speedup(row.pairs, eager.pairs)
        if record.speedup is not None:
            record.speedup.one_process = row.one_process
        record.break_even = stats.break_even(record.startup, row.pairs, record.speedup)
    record.throughput = stats.throughput(record.latency_ms, record.items, record.tokens, record.phase, record.calls)


def _startup(row: ConfigRun, eager: ConfigRun) -> StartUp | None:
    if row.first is None:
        return None
    cold, again = row.cold.warm if row.cold is not None else Warmed(), row.warm or Warmed()
    return StartUp(
        import_seconds=row.load.import_seconds,
        load_seconds=row.load.load_seconds,
        cold_calls_ms=cold.calls_ms if row.configuration.compile else [],
        warm_calls_ms=again.calls_ms if row.configuration.compile else [],
        eager_calls_ms=eager.first.warm.calls_ms if eager.first is not None else [],
        steady_after=cold.steady_after,
        compile_seconds=row.compile_seconds if row.configuration.compile else None,
        phases=cold.phases,
        cache=cold.cache,
        warm_cache=again.cache,
    )


def _memory(row: ConfigRun, eager: ConfigRun) -> Memory | None:
    if row.memory is None:
        return None
    steady = row.memory.steady_peak
    plain = eager.memory.steady_peak if eager.memory is not None else None
    cold = row.cold.memory if row.cold is not None else None
    return Memory(
        kind=row.memory.kind,
        steady_peak=steady,
        compile_peak=cold.compile_peak if cold is not None and row.configuration.compile else None,
        reserved_peak=row.memory.reserved_peak,
        eager_steady_peak=plain,
        ratio=steady / plain if plain else None,
    )


def _doubts(row: ConfigRun, counts: Counts) -> list[str]:
    """Caveats of a valid number. The worker decides whether it is valid (`check`)."""
    found, configuration, device = list[str](), row.configuration, row.load.device
    if configuration.compile and counts.eager_calls:
        of_all = f"{counts.eager_calls} of {row.load.calls} calls"
        found.append(f"{of_all} ran no compiled code (the recompile limit was reached)")
    asks_for_graphs = configuration.compile and configuration.mode in CUDA_GRAPH_MODES
    if configuration.compile and counts.eager_frames:
        functions = "one function was" if counts.eager_frames == 1 else f"{counts.eager_frames} functions were"
        found.append(f"{functions} left in eager, and these times include that")
    if asks_for_graphs and device.startswith("cuda"):
        if counts.cudagraph_replays is None:
            found.append("whether CUDA graphs were replayed is not known: this torch does not report it")
        elif counts.cudagraph_skips and counts.cudagraph_replays:
            found.append("CUDA graphs were used only for a part: torch skipped them for the rest")
    elif asks_for_graphs:
        found.append(f"mode {configuration.mode} brings no CUDA graphs on {device or 'this device'}")
    return found
