"""Latencies of two reports: compared where both have the same configuration and phase, on the same device."""

from __future__ import annotations

from typing import Any

from dynalyze.comparison.types import Measurement
from dynalyze.report import Report

_Key = tuple[str, str]
_Interval = tuple[float, float]


def compare_measurements(before: Report, after: Report) -> list[Measurement]:
    """Each configuration and phase that either report measured."""
    old, new = _by_key(before), _by_key(after)
    same_device = before.environment.get("device") == after.environment.get("device")
    return [_compared(key, old.get(key), new.get(key), same_device) for key in {**old, **new}]


def _by_key(report: Report) -> dict[_Key, dict[str, Any]]:
    found: dict[_Key, dict[str, Any]] = {}
    for item in report.measurements:
        latency = item.get("latency_ms")
        key = str(item.get("configuration", "")), str(item.get("phase", ""))
        found.setdefault(key, latency if isinstance(latency, dict) else {})
    return found


def _compared(key: _Key, old: dict[str, Any] | None, new: dict[str, Any] | None, same_device: bool) -> Measurement:
    before, after = _median(old), _median(new)
    result = Measurement(*key, before, after)
    if old is None or new is None:
        result.note = f"only the {'second' if old is None else 'first'} report has it"
    elif before is None or after is None:
        result.note = "no median in both reports"
    elif not same_device:
        result.note = "the two ran on different devices"
    else:
        result.ratio = after / before
        result.overlap = _overlap(_interval(old), _interval(new))
    return result


def _median(latency: dict[str, Any] | None) -> float | None:
    value = (latency or {}).get("p50")
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _interval(latency: dict[str, Any]) -> _Interval | None:
    value = latency.get("interval")
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(each, int | float) for each in value):
        return float(value[0]), float(value[1])
    return None


def _overlap(one: _Interval | None, other: _Interval | None) -> bool | None:
    if one is None or other is None:
        return None
    return one[0] <= other[1] and other[0] <= one[1]
