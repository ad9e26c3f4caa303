"""Planted traps: no wrong change may count as proved, and no right one as wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from proving import against, proof_of
from slow_siblings import mostly_slow
from trap_programs import RIGHT, WRONG, Change


def said_of(change: Change, folder: Path) -> str:
    proof = proof_of(folder, change.source, change.was, change.becomes, **change.options)
    return against(proof, loses=change.loses)


@pytest.mark.parametrize("name", mostly_slow(WRONG, every=3))
def test_a_wrong_change_is_not_proved(name: str, tmp_path: Path) -> None:
    assert said_of(WRONG[name], tmp_path)


@pytest.mark.parametrize("name", mostly_slow(RIGHT, every=3))
def test_a_right_change_is_proved(name: str, tmp_path: Path) -> None:
    assert said_of(RIGHT[name], tmp_path) == ""
