"""How long calls are timed in the program's own process: decided by what was measured, without a clock."""

from __future__ import annotations

import pytest

from dynalyze.capture.bench import in_turns
from dynalyze.capture.bench.in_turns import Allowed, OutOfTime, seconds_where_slow


@pytest.mark.parametrize(
    ("gone", "needed", "left"),
    [
        (2.0, 3.0, 5.5),  # All that is left of the share.
        (2.0, 10.0, 12.0),  # Three turns take longer than that: as long as they take, and a fifth more.
    ],
)
def test_turns_have_their_share_or_what_three_of_them_take(gone: float, needed: float, left: float) -> None:
    assert Allowed(7.5, 21.0).left(gone, needed) == left


def test_more_than_most_of_the_time_is_refused_with_what_would_do() -> None:
    with pytest.raises(OutOfTime, match=r"take 24 s, with 19 s left; --bench-seconds 45 gives"):
        Allowed(7.5, 21.0).left(2.0, 20.0)
    Allowed(0.25 * 45, 0.7 * 45).left(2.0, 20.0)


@pytest.mark.parametrize(
    ("tracing", "late", "slow"),
    [(0.5, 2.5, False), (3.0, 2.5, True), (1.8, 2.5, False), (1.8, 5.0, True), (0.3, 5.0, False)],
)
def test_what_is_slow_to_trace_or_to_import_is_timed_there(
    tracing: float, late: float, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_turns.runtime, "tracing_seconds", lambda: tracing)
    assert seconds_where_slow(30.0, late) == (Allowed(7.5, 21.0) if slow else None)
