"""A sweep as text and CSV."""

from __future__ import annotations

import csv
import io

import pytest

from dynalyze.sweep import csv_table as sweep_csv
from dynalyze.sweep import terminal as sweep_text
from dynalyze.sweep.records import Sweep
from sample_sweeps import broken, empty_sweep, failed, hostile_sweep, matrix_sweep, row, small_sweep, sweep

SAMPLES = {"small": small_sweep, "matrix": matrix_sweep, "hostile": hostile_sweep, "empty": empty_sweep}


def text(made: Sweep, width: int = 80) -> str:
    return sweep_text.render(made, color=False, width=width)


def table(made: Sweep) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(sweep_csv.render(made), newline="")))


def test_counts_lines_errors_and_files_in_their_order() -> None:
    shown = sweep_text.render(small_sweep(), files=[("Page", "out/index.html")], color=False, width=80)
    order = [
        "2 of 8 models", "3 with breaks", "33% of what reached", "Lines that break most",
        "! transformers/utils/generic.py:123 in forward breaks 3 models", "1 line more follows from these",
        "What failed", "InternalTorchDynamoError", "grid_thw is required", "Page  out/index.html",
    ]  # fmt: skip
    flat = " ".join(shown.split())
    at = [flat.index(" ".join(part.split())) for part in order]
    assert at == sorted(at)
    assert "graph break in loop" not in shown


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


def test_lines_of_one_model_wait_for_the_page_where_others_are_shared() -> None:
    shared = [row(f"hf:M{n}", "graph_break", broken(), broken(line=500 + n)) for n in range(3)]
    shown = text(sweep(*shared))
    assert "generic.py:123" in shown
    assert "generic.py:50" not in shown
    assert "3 more lines: see the page or --json." in shown


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


def test_hostile_texts_shift_no_column() -> None:
    found = table(hostile_sweep())
    assert [each["status"] for each in found] == ["graph_break", "eager_error", "full_graph"]
    assert all(None not in each for each in found)
