"""Latencies of two reports: compared where both measured the same configuration in the same way."""

from __future__ import annotations

from dynalyze.comparison.pairing import Side
from dynalyze.comparison.types import Measurement
from dynalyze.report import Report
from dynalyze.report.measurements import Interval
from dynalyze.report.measurements import Measurement as Measured

_Key = tuple[str, str, int | None, int | None, tuple[tuple[str, int], ...]]

_CONDITIONS = {
    "device": "on different devices",
    "dtype": "with different dtypes",
    "threads": "with different numbers of threads",
    "options": "with different options",
    "calls": "with different numbers of calls in a pass",
}
"""What must agree for two times to be comparable, and what is said where it does not."""


def compare_measurements(before: Side, after: Side) -> list[Measurement]:
    """Each configuration, phase, batch, sequence length and shape that either report measured."""
    old, new = _by_key(before.report), _by_key(after.report)
    elsewhere = before.report.environment.get("device") != after.report.environment.get("device")
    compared = {key: _compared(key, old.get(key), new.get(key), elsewhere) for key in {**old, **new}}
    for side in (before, after):
        for item, shown in zip(side.report.measurements, side.shown.measurements, strict=True):
            result = compared[_key(item)]
            result.configuration, result.phase, result.shape = shown.configuration, shown.phase, shown.shape
    return list(compared.values())


def _by_key(report: Report) -> dict[_Key, Measured]:
    found: dict[_Key, Measured] = {}
    for item in report.measurements:
        found.setdefault(_key(item), item)
    return found


def _key(item: Measured) -> _Key:
    return item.configuration, item.phase, item.batch, item.sequence, tuple(sorted(item.shape.items()))


def _compared(key: _Key, old: Measured | None, new: Measured | None, elsewhere: bool) -> Measurement:
    configuration, phase, batch, sequence, shape = key
    result = Measurement(
        configuration, phase, _median(old), _median(new), batch=batch, sequence=sequence, shape=dict(shape)
    )
    result.speedup_before, result.speedup_after = _speedup(old), _speedup(new)
    result.note = _obstacle(old, new, elsewhere)
    if not result.note and result.before and result.after:
        result.ratio = result.after / result.before
        one, other = result.speedup_before, result.speedup_after
        if one is not None and other is not None:  # Each was measured against its own eager runs.
            result.overlap = one.low <= other.high and other.low <= one.high
    return result


def _obstacle(old: Measured | None, new: Measured | None, elsewhere: bool) -> str:
    """Why the two cannot be compared; "" where they can."""
    if old is None or new is None:
        return f"only the {'second' if old is None else 'first'} report has it"
    for item, which in ((old, "first"), (new, "second")):
        if item.status != "valid":
            return f"{item.status} in the {which} report"
    if not _median(old) or not _median(new):
        return "no median in both reports"
    differing = [words for name, words in _CONDITIONS.items() if getattr(old, name) != getattr(new, name)]
    if elsewhere and not (old.device and new.device):
        differing.insert(0, _CONDITIONS["device"])
    return f"the two ran {differing[0]}" if differing else ""


def _median(item: Measured | None) -> float | None:
    return item.latency_ms.p50 if item and item.status == "valid" and item.latency_ms else None


def _speedup(item: Measured | None) -> Interval | None:
    return item.speedup.ratio if item and item.status == "valid" and item.speedup else None
