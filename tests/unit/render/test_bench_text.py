"""Measurements on the terminal."""

from __future__ import annotations

import pytest

from dynalyze.render import bench_text
from dynalyze.render.console import Summary
from dynalyze.render.text.bench import claim, not_measured, tells_no_number, trust_notes
from dynalyze.report.measurements import Accuracy, Measurement
from sample_measurements import (
    accuracies,
    eager_row,
    measured,
    measurements,
    speedup,
)


def shown(
    items: list[Measurement], accuracy: list[Accuracy] | None = None, width: int = 80, color: bool = False
) -> str:
    summary = Summary(color, width)
    bench_text.add(summary, items, accuracy or [])
    return summary.text()


@pytest.mark.parametrize("width", [40, 60, 79])
def test_a_narrow_terminal_gets_sentences(width: int) -> None:
    text = shown(measurements(), accuracies(), width)
    flat = " ".join(text.split())
    assert "compiled is 1.83x faster (1.79 to 1.88), 12 s to compile, worth it after 640 calls" in flat
    assert max(map(len, text.splitlines())) <= width


def test_a_name_does_not_forge_a_line() -> None:
    forged = "x\ndefault  1 ms"
    items = [eager_row(), Measurement(forged, status="failed", reason=forged, batch=4, notes=[forged])]
    assert "\ndefault" not in shown(items)


def test_nothing_is_said_of_no_measurements() -> None:
    assert shown([]) == ""


def test_an_interval_that_tells_nothing_is_not_shown() -> None:
    """Two pairs that contradict each other have one."""
    two = speedup(1.2, 0.00001, 23_436.0)
    text = " ".join(shown([eager_row(), measured("default", 20.0, two)]).split())
    assert "no difference shown (the noise floor is" in text
    (trust,) = trust_notes([eager_row(), measured("default", 20.0, two)])
    assert trust.startswith("The speed: no difference shown, from 5 pairs of processes")
    assert "23,436" not in text


def test_turns_in_one_process_are_not_told_as_pairs_of_processes() -> None:
    together = speedup(1.9, 1.8, 2.0)
    together.one_process = True
    (trust,) = trust_notes([eager_row(), measured("default", 20.0, together)])
    assert "5 turns in one process; eager differed from itself" in trust and "processes" not in trust


def test_what_was_not_reached_in_time_did_not_fail() -> None:
    late = Measurement("default", reason="the time was up before it was timed")
    assert claim(late) == "compiled was not timed: the time was up before it was timed"
    (why,) = not_measured([eager_row(), late], "")
    assert late.reason in why and tells_no_number(late)
    (again,) = not_measured([eager_row(), late], late.reason)  # Told of the answers already.
    assert late.reason not in again
