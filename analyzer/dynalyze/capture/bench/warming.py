"""Runs passes until they are steady: nothing has compiled for a while, and their time has stopped falling."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

_LEAST = 3  # A CUDA graph is warmed up by one call and recorded by another.
_SHORT, _LONG = 5, 50
_WINDOW_MS = 100.0  # Short passes are noisy: enough of them to fill this time are looked at together.
_SLOW_MS = 1000.0
_TOLERANCE = 0.1
_NEAR_STEADY = 1.25


@dataclass
class Warmed:
    """Milliseconds of every pass from the first, and how many came before the steady state; None: not reached."""

    calls_ms: list[float]
    steady_after: int | None


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
    return Warmed(calls_ms, None)


def is_steady(quiet_ms: list[float]) -> bool:
    """Whether the last passes are no faster than those before them; `quiet_ms` are those in which nothing compiled."""
    if len(quiet_ms) < 2 * _LEAST:
        return False
    width = window(quiet_ms[-_LEAST:])
    if len(quiet_ms) < 2 * width:
        return False
    last, earlier = statistics.median(quiet_ms[-width:]), statistics.median(quiet_ms[-2 * width : -width])
    return abs(last - earlier) <= _TOLERANCE * earlier


def window(recent_ms: list[float]) -> int:
    """How many passes make one median."""
    one = statistics.median(recent_ms)
    if one >= _SLOW_MS:
        return _LEAST
    return min(_LONG, max(_SHORT, int(_WINDOW_MS / max(one, 1e-3))))


def steady_from(calls_ms: list[float], last_compile: int) -> int:
    """How many passes came before the steady state: up to the last that compiled, and on while they were slow."""
    steady = statistics.median(calls_ms[-_SHORT:])
    for index in range(last_compile, len(calls_ms)):
        if statistics.median(calls_ms[index : index + _LEAST]) <= _NEAR_STEADY * steady:
            return index
    return len(calls_ms)
