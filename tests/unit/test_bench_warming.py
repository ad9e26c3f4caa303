"""When passes count as steady, on times that are made up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dynalyze.capture.bench.timing import Warmed, is_steady, steady_from, warm, window


def run(times: Sequence[float], compiling: Sequence[int] = (), most: int = 1000, seconds: float = 60) -> Warmed:
    """Warm up on these times, the last of them repeating; something compiles in the passes of these numbers."""
    made: list[float] = []

    def one_pass() -> float:
        made.append(times[min(len(made), len(times) - 1)])
        return made[-1]

    return warm(one_pass, lambda: sum(number < len(made) for number in compiling), seconds, most)


def test_the_first_pass_is_logged_and_does_not_count_as_steady() -> None:
    warmed = run([5000.0, 20.0], compiling=[0])
    assert warmed.calls_ms[:2] == [5000.0, 20.0]
    assert warmed.steady_after == 1


def test_the_three_costly_calls_of_cuda_graphs_come_before_the_steady_state() -> None:
    warmed = run([9000.0, 300.0, 700.0, 2.0], compiling=[0, 1, 2])
    assert warmed.steady_after == 3


def test_it_is_not_steady_while_something_compiles_however_even_the_times() -> None:
    warmed = run([30.0], compiling=range(0, 1000, 4), most=60)
    assert warmed.steady_after is None and len(warmed.calls_ms) == 60


def test_it_goes_on_while_passes_get_faster() -> None:
    falling = [1000 * 0.8**number for number in range(200)]
    warmed = run([*falling[:20], falling[20]])
    assert warmed.steady_after is not None and warmed.steady_after >= 18


def test_the_time_limit_ends_it_after_the_pass_in_progress() -> None:
    assert run([30.0], seconds=0.0) == Warmed([30.0], None)


@pytest.mark.parametrize(("one", "passes"), [(5000.0, 3), (30.0, 5), (4.0, 25), (0.001, 50)])
def test_short_passes_are_looked_at_in_larger_numbers(one: float, passes: int) -> None:
    assert window([one] * 3) == passes


def test_one_slow_pass_among_many_is_noise() -> None:
    quiet = [10.0] * 20
    quiet[15] = 80.0
    assert is_steady(quiet)
    assert steady_from(quiet, 0) == 0
