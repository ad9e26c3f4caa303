"""What another process has to do again of what was compiled here, by torch's own sums."""

from __future__ import annotations

import pytest

from dynalyze.capture.torch_private import runtime

SPENT = {"total": 30.0, "dynamo": 20.0, "aot_autograd": 16.0, "inductor": 9.0, "code_generation": 8.0}


@pytest.mark.parametrize(
    ("counts", "seconds"),
    [
        ({"autograd_cache_miss": 1, "fxgraph_cache_miss": 1}, 4.0),
        ({"autograd_cache_hit": 2}, 4.0),
        ({"autograd_cache_miss": 1, "autograd_cache_bypass": 1}, 11.0),
        ({}, 11.0),
    ],
)
def test_what_no_cache_has_is_traced_again(
    counts: dict[str, int], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dynamo's part always; that of AOTAutograd, without Inductor's in it, where its cache was not used."""
    monkeypatch.setattr(runtime, "phases", lambda: SPENT)
    monkeypatch.setattr(runtime, "cache_counts", lambda: counts)
    assert runtime.tracing_seconds() == seconds


def test_where_torch_tells_nothing_no_time_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "phases", dict)
    assert runtime.tracing_seconds() == 0.0
