"""Times passes: when they are steady, what is timed, what is not, and how a device is asked for its time.

Passes are steady when nothing has compiled for a while, and their time has stopped falling.

On the CPU each call is timed by the clock. On CUDA by a pair of events; the device is idle when a call begins, as it
is for a caller who waits for each answer, and its L2 cache has been overwritten when a pass begins. Other devices are
synchronised before and after each call. The garbage collector does not run inside a block.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from dynalyze.capture.bench.commands import Warmed
from dynalyze.capture.bench.workload import Step

_SHORT_MS, _LONG_MS = 10.0, 200.0
_PATIENCE = 6.0  # A block that was given seconds ends after this many times as long, whatever its untimed part takes.
_LEAST_PASSES = 3  # A CUDA graph is warmed up by one call and recorded by another.
_FEWEST_IN_WINDOW, _MOST_IN_WINDOW = 5, 50
_WINDOW_MS = 100.0  # Short passes are noisy: enough of them to fill this time are looked at together.
_SLOW_MS = 1000.0
_TOLERANCE = 0.1
_NEAR_STEADY = 1.25


class Timer(Protocol):
    """Runs passes and says how long they took."""

    def passes(self, steps: Sequence[Step], count: int, *, flush: bool = True) -> list[float]:
        """Milliseconds of each of `count` passes; with `flush` the caches of the device are cold at each beginning."""


def timer_for(device: str) -> Timer:
    """The timer for a type of device, "" being the CPU."""
    return CudaTimer() if device == "cuda" else ClockTimer(device)


class ClockTimer:
    """Times by the clock; waits for `device` before and after each call where it is another than the CPU."""

    def __init__(self, device: str) -> None:
        self._synchronize = None if device in ("", "cpu", "meta") else torch.accelerator.synchronize

    def passes(self, steps: Sequence[Step], count: int, *, flush: bool = True) -> list[float]:
        return [sum(self._timed(step) for step in steps) / 1e6 for _ in range(count)]

    def _timed(self, step: Step) -> int:
        step.prepare()
        wait = self._synchronize
        if wait is not None:
            wait()
        began = time.perf_counter_ns()
        outputs = step.run()
        if wait is not None:
            wait()
        ended = time.perf_counter_ns()
        del outputs  # Freeing them is no part of the call.
        return ended - began


class CudaTimer:
    """Times by events, which are read after the last pass."""

    def __init__(self) -> None:
        self._flush: Any = None

    def passes(self, steps: Sequence[Step], count: int, *, flush: bool = True) -> list[float]:
        events = []
        for _ in range(count):
            if flush:
                self._flush_cache()
            events.append([self._timed(step) for step in steps])
        torch.cuda.synchronize()
        return [sum(began.elapsed_time(ended) for began, ended in each) for each in events]

    def _timed(self, step: Step) -> tuple[Any, Any]:
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        step.prepare()
        torch.cuda.synchronize()
        began.record()
        outputs = step.run()
        ended.record()
        del outputs
        return began, ended

    def _flush_cache(self) -> None:
        if self._flush is None:
            size = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0)
            self._flush = torch.empty(max(2 * size, 1 << 26), dtype=torch.uint8, device="cuda")
        self._flush.zero_()


def block(
    timer: Timer, steps: Sequence[Step], passes: int | None = None, seconds: float | None = None, lead: int = 0
) -> list[float]:
    """Milliseconds of each pass of a block: `passes` of them, or as many as fill `seconds` of timed calls.

    `lead` passes come before and do not count: since the last block another process has had the caches.
    """
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()  # To look through all of torch again takes longer than most blocks.
    gc.disable()
    try:
        if lead:
            timer.passes(steps, lead)
        if passes is not None:
            return timer.passes(steps, passes)
        samples: list[float] = []
        began, seconds = time.perf_counter(), seconds or 0.0
        while not samples or (sum(samples) < seconds * 1e3 and time.perf_counter() - began < _PATIENCE * seconds):
            samples += timer.passes(steps, 1)
        return samples
    finally:
        if was_on:
            gc.enable()


def lead_in(recent_ms: Sequence[float]) -> int:
    """How many passes before a block do not count: none where a pass is long, for what they would cost."""
    one = statistics.median(recent_ms) if recent_ms else 0.0
    return 0 if one > _LONG_MS else 1 if one > _SHORT_MS else 3


def warm(run_pass: Callable[[], float], activity: Callable[[], object], seconds: float, most: int) -> Warmed:
    """Call `run_pass`, which returns its milliseconds, until steady or until one of the limits.

    `activity` changes with everything that compiles; `seconds` count from the end of the last pass that compiled.
    """
    calls_ms: list[float] = []
    last_compile = 0
    began = time.perf_counter()
    while len(calls_ms) < most:
        before = activity()
        calls_ms.append(run_pass())
        if activity() != before:
            last_compile, began = len(calls_ms), time.perf_counter()
        if is_steady(calls_ms[last_compile:]):
            return Warmed(calls_ms, steady_from(calls_ms, last_compile))
        if time.perf_counter() - began >= seconds:
            break
    return Warmed(calls_ms)


def is_steady(quiet_ms: list[float]) -> bool:
    """Whether the last passes are no faster than those before them; `quiet_ms` are those in which nothing compiled."""
    if len(quiet_ms) < 2 * _LEAST_PASSES:
        return False
    width = window(quiet_ms[-_LEAST_PASSES:])
    if len(quiet_ms) < 2 * width:
        return False
    last, earlier = statistics.median(quiet_ms[-width:]), statistics.median(quiet_ms[-2 * width : -width])
    return abs(last - earlier) <= _TOLERANCE * earlier


def window(recent_ms: list[float]) -> int:
    """The number of passes in one median."""
    one = statistics.median(recent_ms)
    if one >= _SLOW_MS:
        return _LEAST_PASSES
    return min(_MOST_IN_WINDOW, max(_FEWEST_IN_WINDOW, int(_WINDOW_MS / max(one, 1e-3))))


def steady_from(calls_ms: list[float], last_compile: int) -> int:
    """How many passes came before the steady state: up to the last that compiled, and on while they were slow."""
    steady = statistics.median(calls_ms[-_FEWEST_IN_WINDOW:])
    for index in range(last_compile, len(calls_ms)):
        if statistics.median(calls_ms[index : index + _LEAST_PASSES]) <= _NEAR_STEADY * steady:
            return index
    return len(calls_ms)
