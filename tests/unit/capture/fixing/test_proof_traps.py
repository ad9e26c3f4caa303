"""Planted traps: no wrong change may count as verified, and no right one as wrong."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from proving import against, proof_of
from slow_siblings import mostly_slow
from trap_programs import RIGHT, WRONG, Change


@pytest.fixture(autouse=True)
def settings_of_this_process() -> Iterator[None]:
    """Some traps set them, here where other tests follow."""
    recursion = sys.getrecursionlimit()
    yield
    torch.set_flush_denormal(False)
    sys.setrecursionlimit(recursion)
    gc.enable()


def said_of(change: Change, folder: Path) -> str:
    proof = proof_of(folder, change.source, change.was, change.becomes, **change.options)
    return against(proof, loses=change.loses)


@pytest.mark.parametrize("name", mostly_slow(WRONG, every=9))
def test_a_wrong_change_is_not_proved(name: str, tmp_path: Path) -> None:
    assert said_of(WRONG[name], tmp_path)


@pytest.mark.parametrize("name", mostly_slow(RIGHT, every=12))
def test_a_right_change_is_proved(name: str, tmp_path: Path) -> None:
    assert said_of(RIGHT[name], tmp_path) == ""


def test_every_draw_is_compiled_past_the_limit_of_recompiles(tmp_path: Path) -> None:
    """Here torch raises at the limit, in place of running the rest in eager, which verifies nothing of compiled
    code.
    """
    source = """
import torch

def model(x, counts):
    for count in counts.tolist():
        x = x + 1 if count % 2 else x * 2
    return x

calls = [(torch.randn(4), torch.tensor([3, 4, 5]))]
"""
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        proof = proof_of(tmp_path, source, "", source, draws=12)
    assert against(proof) == "" and proof.draws.tried == 12
