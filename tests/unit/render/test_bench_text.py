"""Measurements on the terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from dynalyze.render import bench_text
from dynalyze.render.console import Summary
from dynalyze.render.text.bench import trust_notes
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


def row(text: str, name: str) -> str:
    """The first line of the table that begins with this name."""
    return next(line for line in text.splitlines() if line.startswith(name))


def test_the_bar_is_the_share_of_the_slowest() -> None:
    items = [eager_row(40.0), measured("default", 20.0, speedup(2.0, 1.9, 2.1), 40.0)]
    for item, milliseconds in zip(items, (40.0, 20.0), strict=True):
        assert item.latency_ms is not None
        item.latency_ms.p50 = milliseconds
    text = shown(items)
    assert "████████" in row(text, "eager")
    assert "████    " in row(text, "default")


def test_a_long_name_stands_on_a_line_of_its_own() -> None:
    name = "max-autotune-no-cudagraphs+dynamic=on"
    lines = shown([eager_row(), measured(name, 20.0, speedup(1.8, 1.7, 1.9))]).splitlines()
    at = lines.index(name)
    assert "1.80x" in lines[at + 1]
    assert name not in lines[at + 1]


@pytest.mark.parametrize("width", [40, 60, 79])
def test_a_narrow_terminal_gets_sentences(width: int) -> None:
    text = shown(measurements(), accuracies(), width)
    flat = " ".join(text.split())
    assert "compiled is 1.83x faster (1.79 to 1.88), 12 s to compile, worth it after 640 calls" in flat
    assert "█" not in text
    assert max(map(len, text.splitlines())) <= width


def test_a_name_does_not_forge_a_line() -> None:
    forged = "x\ndefault  1 ms"
    items = [eager_row(), Measurement(forged, status="failed", reason=forged, batch=4, notes=[forged])]
    assert "\ndefault" not in shown(items)


def test_wide_characters_keep_the_columns() -> None:
    items = [
        eager_row(),
        measured("変数変数", 20.0, speedup(1.8, 1.7, 1.9)),
        measured("abcdefgh", 20.0, speedup(1.8, 1.7, 1.9)),
    ]
    text = shown(items)
    places = [cell_len(line[: line.index("1.80x")]) for line in text.splitlines() if "1.80x" in line]
    assert len(places) == 2
    assert len(set(places)) == 1


def test_nothing_is_said_of_no_measurements() -> None:
    assert shown([]) == ""


def test_a_run_that_was_interrupted_before_it_was_timed() -> None:
    text = shown([eager_row(latency_ms=None), measured("default", 20.0, speedup(1.8, 1.7, 1.9), latency_ms=None)])
    assert "default  ! was not timed" in text
    assert "speedup" not in text.split("time:")[0]


def test_an_interval_that_tells_nothing_is_not_shown() -> None:
    """Two pairs that contradict each other have one."""
    two = speedup(1.2, 0.00001, 23_436.0)
    text = " ".join(shown([eager_row(), measured("default", 20.0, two)]).split())
    assert "no difference shown (the noise floor is" in text
    (trust,) = trust_notes([eager_row(), measured("default", 20.0, two)])
    assert trust.startswith("The speed: no difference shown, from 5 pairs of processes")
    assert "23,436" not in text
