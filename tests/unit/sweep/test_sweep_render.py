"""A sweep as text and CSV."""

from __future__ import annotations

import csv
import io

import pytest

from dynalyze.sweep import csv_table as sweep_csv
from dynalyze.sweep import terminal as sweep_text
from dynalyze.sweep.records import Sweep
from sample_sweeps import empty_sweep, failed, hostile_sweep, matrix_sweep, row, small_sweep, sweep

SAMPLES = {"small": small_sweep, "matrix": matrix_sweep, "hostile": hostile_sweep, "empty": empty_sweep}


def text(made: Sweep, width: int = 80) -> str:
    return sweep_text.render(made, color=False, width=width)


def table(made: Sweep) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(sweep_csv.render(made), newline="")))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (sweep(row("hf:A")), "The one item compiles"), (sweep(row("hf:A"), row("hf:B")), "All 2 models compile"),
        (sweep(row("hf:A"), row("hf:A", configuration="train")), "All 2 items compile"),
        (sweep(failed("hf:A", "create_error", "x")), "The model never reached"),
        (sweep(failed("hf:A", "crash", "x"), failed("hf:B", "crash", "x")), "None of 2 models reached"),
        (sweep(row("hf:A"), failed("hf:B", "timeout", "x"), failed("hf:C", "crash", "x")), "1 ran out of time and 1 "),
    ],
)  # fmt: skip
def test_the_verdict_counts_items_and_what_never_reached_the_compiler(made: Sweep, sentence: str) -> None:
    assert sentence in " ".join(text(made).split())


# ---- terminal ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_lines_fit_and_hide_nothing(name: str) -> None:
    shown = text(SAMPLES[name]())
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert all(len(line) <= 80 for line in shown.splitlines() if "\\u" not in line)


# ---- CSV --------------------------------------------------------------------------------------------------


def test_one_line_an_item_with_the_contracts_columns() -> None:
    found = table(small_sweep())
    assert len(found) == 8
    assert [each["target"] for each in found] == [each.target for each in small_sweep().items]
    first = found[0]
    assert (first["status"], first["graph_breaks"], first["recompiles"], first["seconds"]) == (
        "graph_break",
        "2",
        "0",
        "2.5",
    )
    assert first["first_break"] == "transformers/utils/generic.py:123"
    assert first["report"] == "reports/LlamaModel-default.json"
    assert found[6]["error"] == "ValueError: grid_thw is required"
    assert found[6]["report"] == ""
    assert list(first)[:7] == ["target", "configuration", "status", "graph_breaks", "recompiles", "seconds", "error"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", " =", "\r=", "＝"])
def test_no_text_is_a_formula(start: str) -> None:
    (cell,) = {each["target"] for each in table(sweep(row(f"{start}1+1")))}
    assert cell.startswith("'") or not cell.lstrip().startswith(("=", "+", "-", "@", "＝"))


def test_quotes_commas_and_line_ends_stay_in_their_cell() -> None:
    error = 'ValueError: "a", b\nand c\u2028d'
    (found,) = table(sweep(failed("hf:A", "eager_error", error)))
    assert found["error"] == 'ValueError: "a", b␊and c\\u2028d'
    assert len(sweep_csv.render(sweep(failed("hf:A", "eager_error", error))).splitlines()) == 2
