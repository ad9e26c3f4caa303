"""What does not go together, planted by chance among other faults, is told by its own rule and at its own line.

DYNALYZE_SEED draws other plants, names and sizes.
"""

from __future__ import annotations

import os
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from compatibility_plants import MARK, PLANTS, Plant, program
from program import explain

STAND_INS = Path(__file__).parents[1] / "stand_ins"
SEED = int(os.environ.get("DYNALYZE_SEED", "20261121"))
AT_ONCE = 4


def drawn(plants: list[Plant]) -> list[Plant]:
    chance = random.Random(SEED)
    return [plant.drawn(chance) for plant in plants]


TOGETHER = [plant for plant in PLANTS if not plant.alone]


def run(tmp_path: Path, plants: list[Plant]) -> tuple[dict[str, Any], list[str]]:
    """The report, and the lines of the program."""
    if missing := {name for plant in plants for name in plant.needs if find_spec(name) is None}:
        pytest.skip(f"not installed: {', '.join(sorted(missing))}")
    path = [installed(tmp_path, name) for name in ("flash_attn", "flash_attn_builtin")]
    text = f"import sys\nsys.path[:0] = {path}\n{program(plants)}"
    (tmp_path / "serve.py").write_text(text, encoding="utf-8")
    _, report = explain("serve.py", "--quiet-target", cwd=tmp_path, env={"OMP_NUM_THREADS": "1"})
    assert not [note for note in report["capture"]["notes"] if "please report" in note]
    return report, text.splitlines()


def installed(tmp_path: Path, stand_in: str) -> str:
    """A folder of packages with a stand-in in it: a library's files are known by where they are."""
    folder = tmp_path / stand_in / "site-packages"
    folder.parent.mkdir()
    folder.symlink_to(STAND_INS / stand_in)
    return str(folder)


BESIDE = ("caller-in-eager",)
"""A plant that leaves its function in eager leaves what calls that in a loop there too."""


def check(plant: Plant, report: dict[str, Any], lines: list[str]) -> None:
    """Its rule speaks of it, at its line, in words of its own."""
    told = [finding for finding in report["findings"] if finding["rule"] == plant.rule]
    assert told, f"{plant.name}: {[(each['rule'], each['title']) for each in report['findings']]}"
    wanted = [each for each in told if all(word in each["advice"] for word in plant.says)]
    assert wanted, f"{plant.name}: {[each['advice'] for each in told]}"
    mark = next((line for line in plant.code.splitlines() if MARK in line), None)
    if mark is not None:
        assert lines.index(mark) + 1 in {each["location"]["line"] for each in wanted}, plant.name


@pytest.mark.slow
def test_some_of_them_in_one_program(tmp_path: Path) -> None:
    plants = drawn(random.Random(SEED).sample(TOGETHER, AT_ONCE))
    report, lines = run(tmp_path, plants)
    for plant in plants:
        check(plant, report, lines)
    expected = {*BESIDE, *(rule for plant in plants for rule in (plant.rule, *plant.beside))}
    assert {each["rule"] for each in report["findings"]} <= expected


@pytest.mark.slow
@pytest.mark.parametrize("plant", drawn(PLANTS), ids=lambda plant: plant.name)
def test_each_by_itself_is_the_only_finding(plant: Plant, tmp_path: Path) -> None:
    report, lines = run(tmp_path, [plant])
    check(plant, report, lines)
    assert {each["rule"] for each in report["findings"]} <= {*BESIDE, plant.rule, *plant.beside}


def test_every_program_has_names_of_its_own() -> None:
    """Else a rule could know a fault by its name."""
    chance = random.Random(SEED)
    assert all(plant.drawn(chance).code != plant.drawn(chance).code for plant in PLANTS)
