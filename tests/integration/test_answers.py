"""Wrong answers that were real (tests/answers): each program does here what the table says of this version of torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import answers

TABLE = answers.table()
PROGRAMS: list[dict[str, Any]] = TABLE["programs"]
_PARTS = 6
VERSION = torch.__version__.partition("+")[0]


def test_the_table_has_a_row_for_each_program_and_says_where_it_was_run() -> None:
    files = {path.stem.removeprefix("issue_") for path in answers.PROGRAMS.glob("issue_*.py")}
    numbers = [entry["issue"] for entry in PROGRAMS]
    assert sorted(numbers) == sorted(files) and len(numbers) == len(set(numbers))
    assert len([entry for entry in PROGRAMS if entry["wrong"]]) >= 60
    for entry in PROGRAMS:
        assert entry["stage"] in answers.BACKENDS
        assert ("fault" in entry) == ("why" in entry) and entry.get("fault", entry["stage"]) in answers.BACKENDS
        assert set(entry.get("named", [])) <= set(entry["found"])
        assert set(entry["found"]) <= set(entry["wrong"])
        assert not set(entry["wrong"]) & set(entry["right"])
    assert not set(numbers) & {entry["issue"] for entry in TABLE["elsewhere"]}


def test_a_lost_side_effect_is_seen_by_the_plain_comparison() -> None:
    """On every version that there is: a function that does one thing compiled and another one in eager."""
    entry = next(entry for entry in PROGRAMS if entry["issue"] == "198189")
    expected = "wrong" if VERSION in entry["wrong"] else "right"
    assert VERSION not in entry["wrong"] + entry["right"] or answers.differences(entry)["verdict"] == expected


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_program_is_wrong_where_the_table_says_so_and_found_where_it_was_found(part: int) -> None:
    known = [entry for entry in PROGRAMS if VERSION in entry["wrong"] + entry["right"]][part::_PARTS]
    asked = answers.asked(sys.executable, known, found=True, ladder=False)
    told = {entry["issue"]: answer for entry, answer in zip(known, asked, strict=True)}
    verdicts = {number: answer["verdict"] for number, answer in told.items()}
    assert verdicts == {each["issue"]: "wrong" if VERSION in each["wrong"] else "right" for each in known}
    found = {number for number, answer in told.items() if answer.get("dynalyze", {}).get("verdict") == "suspicious"}
    assert {entry["issue"] for entry in known if VERSION in entry["found"]} <= found
    named = {each["issue"]: each["fault"] for each in known if VERSION in each.get("named", [])}
    assert named == {number: told[number]["dynalyze"]["named"] for number in named}
