"""Measurements on the terminal."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from dynalyze.render import bench_text
from dynalyze.render.console import Summary
from dynalyze.report.measurements import Accuracy, Measurement
from sample_measurements import (
    accuracies,
    eager_row,
    measured,
    measurements,
    speedup,
)

ESCAPES = re.compile(r"\x1b\[[\d;]*m")


def shown(
    items: list[Measurement], accuracy: list[Accuracy] | None = None, width: int = 80, color: bool = False
) -> str:
    summary = Summary(color, width)
    bench_text.add(summary, items, accuracy or [])
    return summary.text()


def row(text: str, name: str) -> str:
    """The first line of the table that begins with this name."""
    return next(line for line in text.splitlines() if line.startswith(name))


def test_a_row_has_all_that_was_measured() -> None:
    text = shown(measurements(), accuracies())
    assert re.fullmatch(
        r"default +20\.\d ms █+[▏▎▍▌▋▊▉]? +1\.83x 1\.79-1\.88 +12 s +640 \+200 MB as exact", row(text, "default")
    )
    assert re.fullmatch(r"eager +3\d\.\d ms █+[▏▎▍▌▋▊▉]? +1\.3 GB", row(text, "eager"))
    assert "Forward, batch 4: cpu, float32, 2 threads" in text
    assert "Decode, batch 1, sequence 128: cpu, float32, 2 threads, a round is 16 calls" in text


def test_columns_stand_below_their_headings() -> None:
    lines = shown(measurements(), accuracies()).splitlines()
    head = next(line for line in lines if "speedup" in line)
    line = next(line for line in lines if line.startswith("default"))
    assert line.index("1.83x") == head.index("speedup")
    assert line.index("as exact") == head.index("answers")
    assert line.index("12 s") + len("12 s") == head.index("compile") + len("compile")
    assert line.index("640") + len("640") == head.index("payback") + len("payback")


def test_the_bar_is_the_share_of_the_slowest() -> None:
    items = [eager_row(40.0), measured("default", 20.0, speedup(2.0, 1.9, 2.1), 40.0)]
    for item, milliseconds in zip(items, (40.0, 20.0), strict=True):
        assert item.latency_ms is not None
        item.latency_ms.p50 = milliseconds
    text = shown(items)
    assert "████████" in row(text, "eager")
    assert "████    " in row(text, "default")


def test_what_is_not_valid_shows_its_reason_and_no_number() -> None:
    text = shown(measurements())
    at = text.splitlines().index("reduce-overhead  ! invalid")
    assert text.splitlines()[at + 1] == "   no CUDA graph was replayed: the model runs on the CPU"
    assert "max-autotune  ! failed\n   out of memory while compiling" in text


def test_no_difference_is_no_number_in_the_table() -> None:
    text = shown(measurements())
    assert "no difference" in row(text, "dynamic=on")
    assert "x" not in row(text, "dynamic=on").replace("compile", "")
    assert "dynamic=on: no difference shown (0.97 to 1.03; the noise floor is 4%)" in text


def test_tokens_are_told_below() -> None:
    text = shown(measurements())
    assert "tokens/s: eager 174, default 390, regional 158" in text
    assert "ms per output token: default 2.56" in text


def test_a_long_name_stands_on_a_line_of_its_own() -> None:
    name = "max-autotune-no-cudagraphs+dynamic=on"
    lines = shown([eager_row(), measured(name, 20.0, speedup(1.8, 1.7, 1.9))]).splitlines()
    at = lines.index(name)
    assert "1.80x" in lines[at + 1]
    assert name not in lines[at + 1]


def test_a_wide_terminal_has_room_for_names() -> None:
    name = "max-autotune-no-cudagraphs"
    assert "1.80x" in row(shown([eager_row(), measured(name, 20.0, speedup(1.8, 1.7, 1.9))], width=100), name)


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


def test_colour_changes_no_word() -> None:
    colored = ESCAPES.sub("", shown(measurements(), accuracies(), color=True))
    assert [line.rstrip() for line in colored.splitlines()] == shown(measurements(), accuracies()).splitlines()


def test_nothing_is_said_of_no_measurements() -> None:
    assert shown([]) == ""


def test_a_run_that_was_interrupted_before_it_was_timed() -> None:
    text = shown([eager_row(latency_ms=None), measured("default", 20.0, speedup(1.8, 1.7, 1.9), latency_ms=None)])
    assert "default  ! was not timed" in text
    assert "speedup" not in text.split("time:")[0]
