"""Every reader under damaged inputs: a hundred of each here, a million in `make slow`. See fuzz_all.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fuzz_all import MILLION, OVER_TIME, fuzz, fuzz_together
from fuzz_readers import READERS

SEED = 1
EACH = 100


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_no_input_ends_a_reader(reader: str) -> None:
    found = fuzz([reader], SEED, 0, EACH)
    # How long an input may take is judged where nothing else runs: in the million.
    assert {kind: where for kind, where in found.findings.items() if not kind.startswith(OVER_TIME)} == {}
    assert found.inputs[reader] == EACH


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_million_inputs() -> None:
    found = fuzz_together(MILLION, SEED, workers=os.cpu_count() or 1)
    assert found.findings == {}
    assert sum(found.inputs.values()) >= MILLION
