"""When each compile began, and how long each of its phases took by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynalyze.events.log import RunLog
from dynalyze.events.types import CompileStarted
from dynalyze.report import PHASES

# Two readings of one clock are never further apart than this; a log's own clock may be in another time zone.
_SAME_CLOCK = 600.0


def exclusive(inclusive: dict[str, float]) -> dict[str, float]:
    """What each phase took without the phase inside it; together they are as long as the outermost one.

    What `total` has of its own is called `other`. A phase that claims to be longer than the one that holds it is
    cut to that one's length.
    """
    known = [(name, max(0.0, inclusive[name])) for name in PHASES if name in inclusive]
    own: dict[str, float] = {}
    bound = float("inf")
    for at, (name, seconds) in enumerate(known):
        bound = min(bound, seconds)
        inner = min(bound, known[at + 1][1]) if at + 1 < len(known) else 0.0
        own["other" if name == "total" else name] = round(bound - inner, 6)
    return own


class Clock:
    """Seconds since the start of a run."""

    def __init__(self, run: RunLog) -> None:
        starts = [log.started.at for log in run.processes if log.started.at > 0]
        self._start = min(starts) if starts else _earliest_compile(run)

    def began(self, event_at: float, metrics: Mapping[str, Any] | None) -> float | None:
        """When a compile began, from torch's own reading where it has one, else from that of its event."""
        measured = _start_of(metrics)
        if measured and event_at > 0 and abs(measured - event_at) > _SAME_CLOCK:
            measured = None
        moment = measured or event_at
        if moment <= 0 or self._start is None:
            return None
        return round(max(0.0, moment - self._start), 6)

    def backward_began(self, ended_at: float, metrics: Mapping[str, Any], seconds: float) -> float | None:
        """When a backward compile began. It has no event for its start: the one for its end is enough."""
        return self.began(max(0.0, ended_at - seconds), metrics)


def _earliest_compile(run: RunLog) -> float | None:
    moments = [event.at for _, event in run.all() if isinstance(event, CompileStarted) and event.at > 0]
    return min(moments, default=None)


def _start_of(metrics: Mapping[str, Any] | None) -> float | None:
    micro = (metrics or {}).get("start_time_us")
    return micro / 1e6 if isinstance(micro, int | float) and micro > 0 else None
