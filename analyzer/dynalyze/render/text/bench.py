"""The sentences about measurements that the terminal, the page and the verdict share.

A number is told only of a measurement that is valid; where the interval of a speedup includes 1 nothing is called
faster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from dynalyze.report.measurements import (
    Accuracy,
    AccuracyVerdict,
    Interval,
    Measurement,
    Memory,
    Speedup,
    StartUp,
    TensorAccuracy,
)
from dynalyze.text.amounts import count_of, duration, exact_size, listed, milliseconds, percent, size

EAGER = "eager"
"""The name of the configuration that all others are measured against."""

_NAMES = {"default": "compiled", "as written": "compiled as written"}
"""What configurations are called in a sentence, where not by their own names."""

_WIDEST = 100.0
"""How many times its low end the high end of an interval may be that is shown."""

_MOST_WORKLOADS = 4
"""Workloads in a verdict."""

_PHASES = {"train": "training step"}
"""What phases are called, where not by their own names."""

_RATES = {
    "samples_per_second": "samples/s",
    "tokens_per_second": "tokens/s",
    "prefill_tokens_per_second": "tokens/s",
    "decode_tokens_per_second": "tokens/s",
    "generate_tokens_per_second": "tokens/s",
    "time_to_first_token_ms": "ms to the first token",
    "time_per_output_token_ms": "ms per output token",
}

# What is said of answers, in a sentence and in a narrow column; the better ones first.
_ANSWERS: dict[AccuracyVerdict, tuple[str, str]] = {
    "equal": ("same answers", "same"),
    "benign": ("answers about as exact as those of eager", "as exact"),
    "rounding only": ("answers that differ by rounding only", "rounding"),
    "suspicious": ("suspicious answers", "suspect"),
    "not comparable": ("answers not compared", "unknown"),
}


class Measured(Protocol):
    """What tells how it was run: a measurement, a test of accuracy, or a comparison of two measurements."""

    configuration: str
    phase: str
    batch: int | None
    sequence: int | None
    shape: dict[str, int]


class WorkloadKey(NamedTuple):
    """What was run: the measurements of one workload can be set beside each other."""

    phase: str
    batch: int | None
    sequence: int | None
    shape: tuple[tuple[str, int], ...] = ()


def workload_of(item: Measured) -> WorkloadKey:
    return WorkloadKey(item.phase, item.batch, item.sequence, tuple(item.shape.items()))


def workload_words(workload: WorkloadKey) -> str:
    """The workload for people: "decode, batch 4, sequence 128". Sizes that were asked for by name are told alone."""
    sizes = workload.shape or (("batch", workload.batch), ("sequence", workload.sequence))
    known = [f"{name} {size:,}" for name, size in sizes if size is not None]
    return ", ".join([_PHASES.get(workload.phase, workload.phase), *known])


def workload_name(item: Measured) -> str:
    """A configuration with its workload: "default, decode, batch 4"."""
    return f"{item.configuration}, {workload_words(workload_of(item))}"


def by_workload(measurements: Iterable[Measurement]) -> dict[WorkloadKey, list[Measurement]]:
    """The measurements by workload, in the order in which they came; eager comes first in each.

    One that failed before its sizes were known stands with the first workload that it may have been.
    """
    groups: dict[WorkloadKey, list[Measurement]] = {}
    for item in measurements:
        own = workload_of(item)
        may_be = (
            each
            for each in groups
            if item.status != "valid"
            and (own.phase, own.shape) == (each.phase, each.shape)
            and own.batch in (None, each.batch)
            and own.sequence in (None, each.sequence)
        )
        groups.setdefault(next(may_be, own), []).append(item)
    return {each: sorted(items, key=lambda item: item.configuration != EAGER) for each, items in groups.items()}


def conditions(items: Iterable[Measurement]) -> str:
    """Under what all of a workload was measured: "cpu, float32, 2 threads, a round is 16 calls"."""
    first = next((item for item in items if item.status == "valid"), None)
    if first is None:
        return ""
    known = [first.device, first.dtype]
    known += [count_of(first.threads, "thread")] if first.threads else []
    known += [f"a round is {first.calls:,} calls"] if first.calls != 1 else []
    return ", ".join(part for part in known if part)


def token_rates(items: Iterable[Measurement]) -> dict[str, list[tuple[str, float]]]:
    """Tokens in a second, and the times of a token, by what they are called and by configuration."""
    found: dict[str, list[tuple[str, float]]] = {}
    for item in items:
        for name, value in item.throughput.items():
            if "token" in name and item.status == "valid":
                found.setdefault(rate_words(name), []).append((item.configuration, value))
    return found


def rate_words(name: str) -> str:
    """A rate of a measurement for people: "tokens/s"."""
    return _RATES.get(name, name)


def notes(items: Sequence[Measurement]) -> list[str]:
    """What was noted, once each; a note that not all configurations share names its own."""
    found: dict[str, list[str]] = {}
    for item in items:
        for note in item.notes:
            found.setdefault(note, []).append(item.configuration)
    shared, only = len(items), sum(item.configuration != EAGER for item in items) == 1
    return [
        note if len(whose) == shared > 1 or (only and EAGER not in whose) else f"{', '.join(whose)}: {note}"
        for note, whose in found.items()
    ]


def accuracy_of(item: Measurement, accuracy: Iterable[Accuracy]) -> Accuracy | None:
    """The test of accuracy of a measurement's configuration, at the same workload."""
    key = (item.configuration, workload_of(item))
    return next((each for each in accuracy if (each.configuration, workload_of(each)) == key), None)


def fastest(measurements: Iterable[Measurement]) -> Measurement | None:
    """The configuration of the greatest speedup that was shown; else the first valid one; else the first one."""
    items = [item for item in measurements if item.configuration != EAGER]
    shown = [item for item in items if item.status == "valid" and item.speedup is not None]
    faster = [item for item in shown if item.speedup and item.speedup.verdict == "faster"]
    best = max(faster, key=lambda item: item.speedup.ratio.value if item.speedup else 0.0, default=None)
    return best or next(iter([*shown, *items]), None)


def first_best(measurements: Iterable[Measurement]) -> Measurement | None:
    """The best configuration of the first workload that has any beside eager."""
    return next((best for items in by_workload(measurements).values() if (best := fastest(items))), None)


def all_well(measurements: Sequence[Measurement], accuracy: Iterable[Accuracy]) -> bool:
    """Whether every measurement is valid, one of them shows a gain, and no answer is suspicious."""
    gains = any(item.speedup is not None and item.speedup.verdict == "faster" for item in measurements)
    sound = all(item.status == "valid" for item in measurements)
    return gains and sound and all(item.verdict != "suspicious" for item in accuracy)


def sentence(item: Measurement, accuracy: Accuracy | None = None) -> str:
    """All that is known of one configuration: "compiled is 1.83x faster (1.79 to 1.88), 12 s to compile, ..."."""
    clauses = [claim(item)]
    if item.status != "valid":
        return clauses[0]
    if (cost := compile_cost(item)) is not None:
        clauses.append(f"{cost.words} to compile")
    even = item.break_even
    if item.speedup is not None and item.speedup.verdict == "faster" and even is not None:
        passes = None if even.passes is None else passes_words(even.passes, item.calls)
        clauses.append(f"worth it after {passes}" if passes else f"break-even {even.reason or 'not known'}")
    if item.configuration != EAGER and item.memory is not None and more_memory(item.memory):
        clauses.append(f"{more_memory(item.memory)} of memory")
    return ", ".join(clauses if accuracy is None else [*clauses, answers(accuracy)])


def statement(item: Measurement, accuracy: Accuracy | None = None) -> str:
    """The same as a whole sentence. Names of configurations stay as they are."""
    said = sentence(item, accuracy)
    return f"{capital(said) if item.configuration in (EAGER, *_NAMES) else said}."


def claim(item: Measurement) -> str:
    """How fast one configuration is, or why that is not known: "compiled is 1.83x faster (1.79 to 1.88)"."""
    name = _NAMES.get(item.configuration, item.configuration)
    if item.status != "valid":
        return f"{name} {failure(item)}"
    if item.speedup is None:
        return f"{name} {f'takes {milliseconds(item.latency_ms.p50)}' if item.latency_ms else failure(item)}"
    if item.speedup.verdict == "no difference shown":
        return f"{name}: {no_difference(item.speedup)}"
    return f"{name} is {ratio_words(item.speedup)}"


def tells_no_number(item: Measurement) -> bool:
    """Whether a sentence has to say why there is no speedup."""
    return item.latency_ms is None or (item.speedup is not None and item.speedup.verdict == "no difference shown")


HEADS = ("time", "speedup", "compile", "payback", "memory", "answers")


def cells(item: Measurement, accuracy: Accuracy | None) -> list[str]:
    """The columns of HEADS; "" for what was not measured."""
    if item.status != "valid" or item.latency_ms is None:
        return ["not timed" if item.status == "valid" else item.status, *[""] * (len(HEADS) - 1)]
    cost, even, gain, speed = compile_cost(item), item.break_even, item.speedup, ""
    eager = item.configuration == EAGER
    if gain is not None:
        shown = f"{times(gain.ratio.value)} {plain_ratio(gain.ratio.low)}-{plain_ratio(gain.ratio.high)}"
        speed = "no difference" if gain.verdict == "no difference shown" else shown
    return [
        milliseconds(item.latency_ms.p50),
        speed,
        "" if cost is None else cost.words,
        "" if even is None or even.passes is None else short_count(even.passes),
        "" if item.memory is None else size(item.memory.steady_peak) if eager else more_memory(item.memory),
        "" if accuracy is None else _ANSWERS[accuracy.verdict][1],
    ]


def failure(item: Measurement) -> str:
    """Why there is no number: "could not be measured: no frame was compiled"."""
    if item.status == "valid":
        return ": ".join(filter(None, ["was not timed", item.reason]))
    how = "could not be measured" if item.status == "invalid" else "failed"
    return f"{how}: {item.reason or 'the reason is not known'}"


def ratio_words(speed: Speedup) -> str:
    """The difference: "1.83x faster (1.79 to 1.88)", slower by how much slower; or why none was shown."""
    ratio = speed.ratio
    if speed.verdict == "no difference shown":
        return no_difference(speed)
    if speed.verdict == "slower":
        ratio = Interval(*(1 / each if each else math.inf for each in (ratio.value, ratio.high, ratio.low)))
    return f"{times(ratio.value)} {speed.verdict} ({interval_words(ratio)})"


def no_difference(speed: Speedup) -> str:
    """What stands in the place of a speedup that was not shown, with the reason."""
    ratio = speed.ratio
    if speed.floor is None:
        why = "the noise floor is not known"
    elif ratio.low <= 1 <= ratio.high:
        why = f"the noise floor is {floor_words(speed.floor)}"
    else:
        why = f"only {pairs_words(speed)}"
    return f"no difference shown ({'' if _tells_nothing(ratio) else f'{interval_words(ratio)}; '}{why})"


def pairs_words(speed: Speedup) -> str:
    """ "5 pairs of processes", "10 turns in one process"."""
    if speed.one_process:
        return f"{count_of(speed.pairs, 'turn')} in one process"
    return f"{count_of(speed.pairs, 'pair')} of processes"


def _tells_nothing(ratio: Interval) -> bool:
    """Whether an interval is no more than its reason: "0.00 to 23,436", of two pairs that contradict each other."""
    return ratio.high > _WIDEST * ratio.low


def floor_words(floor: float) -> str:
    """How far apart two equals seemed: "4%". Beyond twice as fast the number says no more."""
    return percent(floor) if floor < 1 else "above 100%"


def interval_words(ratio: Interval) -> str:
    """The ends of an interval of a ratio: "1.79 to 1.88"."""
    return f"{plain_ratio(ratio.low)} to {plain_ratio(ratio.high)}"


def times(ratio: float) -> str:
    """A ratio: "1.83x"."""
    return f"{plain_ratio(ratio)}x"


def plain_ratio(ratio: float) -> str:
    """A ratio without its sign: "1.83"."""
    if not math.isfinite(ratio):
        return "∞"
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}" if ratio < 99.95 else f"{ratio:,.0f}"


class CompileCost(NamedTuple):
    """What the first calls took beyond as many steady ones. `settled` is False where they never became steady."""

    seconds: float
    settled: bool

    @property
    def words(self) -> str:
        return f"{'' if self.settled else '≥'}{duration(self.seconds)}"


def compile_cost(item: Measurement, warm: bool = False) -> CompileCost | None:
    """What it takes until calls are fast, from empty caches or (warm) with those of an earlier process.

    None of eager, and where it was not measured.
    """
    startup, steady = item.startup, item.latency_ms
    if item.status != "valid" or startup is None or steady is None:
        return None
    if not warm and not startup.cold_calls_ms and startup.compile_seconds is not None:
        return CompileCost(startup.compile_seconds, settled=True)
    first = (startup.warm_calls_ms if warm else startup.cold_calls_ms)[: first_calls(startup)]
    if not first:
        return None
    above = math.fsum(first) - len(first) * steady.p50
    return CompileCost(max(above, 0.0) / 1000, startup.steady_after is not None)


def first_calls(startup: StartUp) -> int:
    """How many of the first calls count as starting up: those before the steady state, at least one."""
    if startup.steady_after is None:
        return max(len(startup.cold_calls_ms), 1)
    return max(startup.steady_after, 1)


def passes_words(passes: float, calls: int) -> str:
    """A number of passes: "640 calls", or "40 rounds of 16 calls" where a pass makes several."""
    number = math.ceil(passes)
    return count_of(number, "call") if calls == 1 else f"{count_of(number, 'round')} of {calls:,} calls"


def short_count(number: float) -> str:
    """A count for a narrow column: "640", "12,400", "430 k", "1.2 M"."""
    if number >= 999_500:
        return f"{number / 1e6:.1f} M" if number < 99_950_000 else "> 99 M"
    return f"{number / 1000:.0f} k" if number > 99_999 else f"{math.ceil(number):,}"


def more_memory(memory: Memory) -> str:
    """The steady peak against that of eager: "+200 MB"; "" where eager's is not known."""
    if memory.eager_steady_peak is None:
        return ""
    more = memory.steady_peak - memory.eager_steady_peak
    if abs(more) < 500_000:
        return "+0 MB"
    return f"{'+' if more > 0 else '-'}{size(abs(more))}"


def step_memory(item: Measurement) -> str:
    """What a compiled training step keeps and holds, against eager; "" where that was not measured."""
    found = item.step_memory
    if found is None or found.problem:
        return ""
    kept = f"keeps {exact_size(found.compiled_kept)} for backward, eager {exact_size(found.eager_kept)}"
    return (
        f"a training step {kept}; its peak is {exact_size(found.compiled_peak)}, eager's {exact_size(found.eager_peak)}"
    )


def answers(item: Accuracy) -> str:
    """What was found of the answers: "same answers"."""
    reason = f" ({item.reason.rstrip('.')})" if item.reason and item.verdict == "not comparable" else ""
    return f"{_ANSWERS[item.verdict][0]}{reason}"


def wrong_answers(accuracy: Iterable[Accuracy]) -> list[str]:
    """The first sentence where answers are wrong, with one number of both sides; none where they are not."""
    wrong = next((each for each in accuracy if each.verdict == "suspicious"), None)
    if wrong is None:
        return []
    tensor = next((each for each in wrong.tensors if each.verdict == "suspicious"), None)
    if tensor is not None and tensor.eager_value is not None and tensor.compiled_value is not None:
        mine, theirs = f"{tensor.eager_value:.6g}", f"{tensor.compiled_value:.6g}"
        return [f"Wrong answers: {tensor_name(tensor)} is {mine} in eager and {theirs} in compiled."]
    if tensor is None and wrong.contracts:
        fault = wrong.contracts[0]
        return [f"Wrong answers: {fault.place} {fault.eager} in eager and {fault.compiled} in compiled."]
    return [f"Wrong answers: {tensor_name(tensor) if tensor else 'compiled'} differs from eager."]


def tensor_name(tensor: TensorAccuracy) -> str:
    """What a tensor is called in a sentence: "argument 0 after the call", "gradient of weight"."""
    if tensor.kind == "gradient":
        return f"gradient of {tensor.name}"
    return f"argument {tensor.name}" if tensor.name.endswith(" after the call") else tensor.name


def answers_clause(accuracy: Sequence[Accuracy], unchecked: str) -> list[str]:
    """Whether answers were compared, to end a sentence with; none where a sentence says that they are wrong, or where
    nobody should have compared any.
    """
    verdicts = {each.verdict: each for each in accuracy}
    if not verdicts:
        return [f"answers not checked: {unchecked.rstrip('.')}"] if unchecked else []
    if "suspicious" in verdicts:
        return []
    if unknown := verdicts.get("not comparable"):
        return [f"answers not checked: {unknown.reason.rstrip('.') or 'they could not be compared'}"]
    worst = verdicts[[verdict for verdict in _ANSWERS if verdict in verdicts][-1]]
    return [f"{answers(worst)} ({_what_was_compared(worst)})"]


def _what_was_compared(test: Accuracy) -> str:
    """What was: "3 calls, outputs and gradients"."""
    kinds = {each.kind for each in test.tensors}
    parts = [f"{kind}s" for kind in ("output", "gradient") if kind in kinds]
    known = [count_of(test.calls, "call")] * bool(test.calls) + [listed(parts)] * bool(parts)
    return ", ".join([*known, *["with eager's random numbers"] * test.draws])


def answers_title(verdict: AccuracyVerdict) -> str:
    """A verdict as a heading: "Suspicious answers"."""
    return capital(_ANSWERS[verdict][0])


def verdict_short(verdict: AccuracyVerdict) -> str:
    """A verdict in a word: "same"."""
    return _ANSWERS[verdict][1]


def verdict_sentences(measurements: list[Measurement], accuracy: list[Accuracy]) -> list[str]:
    """What a benchmark found: the best configuration of each workload, then what was measured in all."""
    groups = {workload: best for workload, items in by_workload(measurements).items() if (best := fastest(items))}
    if len(groups) == 1:
        (best,) = groups.values()
        found = [statement(best, accuracy_of(best, accuracy))]
    else:
        found = [f"{capital(workload_words(each))}: {claim(best)}." for each, best in groups.items()][:_MOST_WORKLOADS]
    compiled = [item for item in measurements if item.configuration != EAGER]
    if len(compiled) > 1:
        states = ("not timed" if item.status == "valid" and item.reason else item.status for item in compiled)
        bad = Counter(state for state in states if state != "valid")
        tail = f", {' and '.join(f'{number:,} {status}' for status, number in bad.items())}" if bad else ""
        left = len(groups) - _MOST_WORKLOADS
        found += [f"{count_of(left, 'more workload')} below."] if left > 0 else []
        found.append(f"{count_of(len(compiled), 'configuration')} measured against eager{tail}.")
    return found or ["Nothing was measured."]


def speed_clause(measurements: list[Measurement]) -> str:
    """What was measured, to begin a sentence with: "Compiled is 1.83x faster (1.79 to 1.88)"; "" for nothing."""
    best = first_best(measurements)
    if best is None or best.status != "valid" or best.speedup is None:
        return ""
    eager = best.counts.eager_calls if best.counts is not None else 0
    return capital(claim(best)) + (f", {eager:,} of {best.calls:,} repeated calls in eager" if eager else "")


def not_measured(measurements: list[Measurement], unchecked: str) -> list[str]:
    """Why a measurement that was tried has no number, as a sentence; `unchecked` is why answers are not known. What the
    time was too short for a note says.
    """
    best = first_best(measurements)
    if best is None or (best.status == "valid" and not best.reason):
        return []
    if best.reason and best.reason == unchecked:
        return ["Its speed could not be measured either."]
    return [f"Its speed could not be measured: {best.reason or 'the reason is not known'}."]


def trust_notes(measurements: list[Measurement]) -> list[str]:
    """How far to trust the speed that the verdict tells: its interval, the number of samples, the noise."""
    best = first_best(measurements)
    if best is None or best.status != "valid" or best.speedup is None:
        return []
    speed = best.speedup
    equals = "eager differed from itself" if speed.one_process else "two equal processes differed"
    noise = "" if speed.floor is None else f"; {equals} by up to {floor_words(speed.floor)}"
    if speed.verdict != "no difference shown":
        result = f"{ratio_words(speed)} with its 95% interval"
    elif _tells_nothing(speed.ratio):
        result = "no difference shown"
    else:
        result = f"no difference shown ({interval_words(speed.ratio)}) with its 95% interval"
    return [f"The speed: {result}, from {pairs_words(speed)}{noise}."]


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
