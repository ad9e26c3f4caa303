"""Measurements written by hand: every way in which a configuration may come out, with noisy raw samples."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import Any

from dynalyze.report import Location
from dynalyze.report.measurements import (
    Accuracy,
    AccuracyVerdict,
    BreakEven,
    BrokenContract,
    Counts,
    Interval,
    KeptLine,
    KeptTensor,
    Latency,
    Measurement,
    Memory,
    Pair,
    Speedup,
    SpeedVerdict,
    StartUp,
    StepMemory,
    TensorAccuracy,
)

MEGABYTE = 1_000_000
EAGER_MS = 36.6


def drawn(median: float, spread: float = 0.03, samples: int = 30, seed: int = 0) -> list[float]:
    """Times around a median, with the long tail to the right that real ones have."""
    chance = random.Random(f"{median} {seed}")
    shift = chance.gauss(0.0, spread / 2)
    return [round(median * (1 + shift + abs(chance.gauss(0.0, spread)) - spread / 2), 4) for _ in range(samples)]


def pairs_of(eager: float, compiled: float, pairs: int = 5, samples: int = 30) -> list[Pair]:
    """Raw samples of so many pairs of processes."""
    return [
        Pair(drawn(eager, samples=samples, seed=2 * at), drawn(compiled, samples=samples, seed=2 * at + 1))
        for at in range(pairs)
    ]


def latency(samples: Sequence[float]) -> Latency:
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    mean, sd = statistics.fmean(samples), statistics.stdev(samples)
    return Latency(cuts[49], cuts[89], cuts[94], cuts[98], mean, sd, len(samples))


def speedup(value: float, low: float, high: float, floor: float = 0.02, pairs: int = 5) -> Speedup:
    verdict: SpeedVerdict = "faster" if low > 1 else "slower" if high < 1 else "no difference shown"
    return Speedup(Interval(value, low, high), verdict, floor, pairs)


def startup(eager: float, compiled: float, first: float = 11_800.0, warm: float = 2_900.0) -> StartUp:
    """First calls: cold, from the caches on disk, and eager."""
    return StartUp(
        import_seconds=1.92,
        load_seconds=0.41,
        cold_calls_ms=[first, first * 0.03, *drawn(compiled, samples=18, seed=90)],
        warm_calls_ms=[warm, warm * 0.04, *drawn(compiled, samples=10, seed=91)],
        eager_calls_ms=[eager * 4, *drawn(eager, samples=19, seed=92)],
        steady_after=2,
        phases={"total": first / 1000, "inductor": first / 1250, "dynamo": first / 9000},
        cache={"fxgraph_cache_miss": 3},
        warm_cache={"fxgraph_cache_hit": 3},
    )


def measured(
    configuration: str, compiled: float, speed: Speedup, eager: float = EAGER_MS, **changes: Any
) -> Measurement:
    """A valid measurement of a compiled configuration."""
    pairs = pairs_of(eager, compiled)
    fields: dict[str, Any] = {
        "options": {"backend": "inductor"},
        "batch": 4,
        "dtype": "float32",
        "device": "cpu",
        "threads": 2,
        "items": 4.0,
        "latency_ms": latency([each for pair in pairs for each in pair.compiled]),
        "eager_latency_ms": latency([each for pair in pairs for each in pair.eager]),
        "samples": pairs,
        "speedup": speed,
        "startup": startup(eager, compiled),
        "break_even": BreakEven(640.0, 598.0, 691.0),
        "memory": Memory("rss", 1_480 * MEGABYTE, 1_910 * MEGABYTE, None, 1_280 * MEGABYTE, 1.156),
        "throughput": {"samples_per_second": 4000 / compiled},
        "counts": Counts(compiled_frames=3, graphs=3),
    }
    return Measurement(configuration, **{**fields, **changes})


def eager_row(milliseconds: float = EAGER_MS, **changes: Any) -> Measurement:
    samples = drawn(milliseconds, samples=60)
    fields: dict[str, Any] = {
        "batch": 4,
        "dtype": "float32",
        "device": "cpu",
        "threads": 2,
        "latency_ms": latency(samples),
        "startup": StartUp(1.92, 0.41, eager_calls_ms=[milliseconds * 4, *samples[:19]]),
        "memory": Memory("rss", 1_280 * MEGABYTE),
    }
    return Measurement("eager", **{**fields, **changes})


def measurements() -> list[Measurement]:
    """Forward in six configurations, prefill and decode in three."""
    return [
        eager_row(),
        measured("default", 20.0, speedup(1.83, 1.79, 1.88)),
        measured(
            "regional", 25.8, speedup(1.42, 1.37, 1.46), startup=startup(EAGER_MS, 25.8, 2_600.0, 1_100.0),
            break_even=BreakEven(214.0, 195.0, 241.0), options={"region": "blocks"},
        ),
        measured(
            "dynamic=on", 36.4, speedup(1.005, 0.97, 1.03, 0.04), startup=startup(EAGER_MS, 36.4, 14_200.0, 3_300.0),
            break_even=BreakEven(reason="never, as far as is known: no saving was shown"), options={"dynamic": "on"},
        ),
        Measurement(
            "reduce-overhead", status="invalid", batch=4, dtype="float32", device="cpu", threads=2,
            reason="no CUDA graph was replayed: the model runs on the CPU", options={"mode": "reduce-overhead"},
            counts=Counts(compiled_frames=3, graphs=3, cudagraph_replays=0, cudagraph_skips=3),
        ),
        Measurement(
            "max-autotune", status="failed", batch=4, dtype="float32", device="cpu", options={"mode": "max-autotune"},
            reason="out of memory while compiling: the process was killed at 15.8 GB",
        ),
        *_language(),
    ]  # fmt: skip


def _language() -> list[Measurement]:
    sizes: dict[str, Any] = {"batch": 1, "sequence": 128}
    decode = {**sizes, "phase": "decode", "tokens": 16.0, "calls": 16}
    return [
        eager_row(51.0, phase="prefill", throughput=_tokens("prefill", 2510.0), **sizes),
        measured(
            "default", 39.2, speedup(1.30, 1.26, 1.33), 51.0, phase="prefill",
            throughput={**_tokens("prefill", 3265.0), "time_to_first_token_ms": 39.2}, **sizes,
        ),
        eager_row(92.0, throughput=_tokens("decode", 173.9), **decode),
        measured(
            "default", 41.0, speedup(2.24, 2.18, 2.31), 92.0,
            throughput={**_tokens("decode", 390.0), "time_per_output_token_ms": 2.56}, **decode,
        ),
        measured(
            "regional", 101.5, speedup(0.906, 0.88, 0.93), 92.0, throughput=_tokens("decode", 157.6),
            break_even=BreakEven(reason="never: compiled is slower than eager"), options={"region": "blocks"}, **decode,
        ),
    ]  # fmt: skip


def _tokens(phase: str, rate: float) -> dict[str, float]:
    return {f"{phase}_tokens_per_second": rate}


def tensor(name: str, verdict: AccuracyVerdict, eager: float, compiled: float, **changes: Any) -> TensorAccuracy:
    fields: dict[str, Any] = {
        "kind": "output", "max_difference": max(eager, compiled) * 9, "cosine": 0.99999, "dtype": "float32",
        "compiled_dtype": "float32", "elements": 128_256,
    }  # fmt: skip
    fields |= changes
    return TensorAccuracy(name, verdict=verdict, eager_rmse=eager, compiled_rmse=compiled, **fields)


def accuracies() -> list[Accuracy]:
    """One of each verdict."""
    logits = tensor("logits", "benign", 1.729e-3, 1.565e-3, dtype="bfloat16", compiled_dtype="bfloat16")
    gradient = tensor("layers.0.weight", "equal", 2e-7, 2e-7, kind="gradient")
    worse = tensor("logits", "suspicious", 4.1e-7, 9.3e-4, emulated_rmse=9.2e-4)
    rounded = tensor("logits", "rounding only", 4.1e-4, 1.3e-3, emulated_rmse=4.1e-4)
    cast = tensor("hidden", "suspicious", 4.1e-7, 4.0e-4, compiled_dtype="float16", nonfinite=2)
    size: dict[str, Any] = {"batch": 4}
    return [
        Accuracy("default", "forward", "benign", "", True, True, 0.0, tensors=[gradient, logits], **size),
        Accuracy("regional", "forward", "equal", "", True, True, 0.0, tensors=[gradient], **size),
        Accuracy("dynamic=on", "forward", "rounding only", "", True, True, 0.0078, tensors=[rounded, gradient], **size),
        Accuracy("default", "prefill", "not comparable", "eager is not deterministic", False, False, None, 1, 128),
        Accuracy("regional", "decode", "suspicious", "", True, True, 0.031, 1, 128, [gradient, worse, cast], 4),
    ]


def hostile_measurements(text: str) -> list[Measurement]:
    """Every free text of a measurement is an attack on the page; so is each status."""
    from sample_break_cost import hostile_prices  # Where the feature is.

    names: dict[str, Any] = {
        "phase": text, "reason": text, "notes": [text], "dtype": text, "device": text, "options": {text: text},
    }  # fmt: skip
    calls = startup(EAGER_MS, 20.0)
    calls.phases, calls.cache, calls.warm_cache = {text: 1.0}, {text: 1}, {text: 1}
    return [
        eager_row(**names),
        measured(
            text, 20.0, speedup(1.83, 1.79, 1.88), throughput={text: 1.0}, startup=calls,
            break_even=BreakEven(reason=text), prices=hostile_prices(text),
            step_memory=_hostile_step_memory(text), **names,
        ),
        Measurement(text + "2", status="invalid", **names),
        Measurement(text + "3", status="failed", **names),
    ]  # fmt: skip


def _hostile_step_memory(text: str) -> StepMemory:
    kept = KeptTensor(3, text, [1], text, text)
    return StepMemory(3, 3, lines=[KeptLine(Location(text, 3, 1, text, text), 3, 3, [kept], [kept], [text])])


def step_memory(first: Location, second: Location) -> StepMemory:
    """A step that keeps less than eager: the second line is computed again."""
    exp = KeptTensor(2_097_152, "float32", [1024, 512], "aten.exp")
    relu = KeptTensor(2_097_152, "float32", [1024, 512], module="layers.0")
    return StepMemory(
        4_194_304, 2_097_152, 7_400_000, 5_100_000, "backward", "backward",
        [
            KeptLine(second, 2_097_152, 0, [relu], [], ["aten.sin", "aten.cos", "aten.sin"]),
            KeptLine(first, 2_097_152, 2_097_152, [relu], [exp]),
        ],
        2,
    )  # fmt: skip


def hostile_accuracies(text: str) -> list[Accuracy]:
    wrong, broken = tensor(text, "suspicious", 1e-3, 1.0, dtype=text), BrokenContract(text, text, text, text)
    return [Accuracy(text, text, "suspicious", text, tensors=[wrong], contracts=[broken])]
