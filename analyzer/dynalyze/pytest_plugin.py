"""The pytest plugin of dynalyze: the fixture `dynalyze`. torch is imported by the first test that asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dynalyze.testing.checks import CompileChecks


@pytest.fixture
def dynalyze() -> CompileChecks:
    """Assertions about torch.compile: assert_no_graph_breaks, assert_no_recompiles, assert_compiles,
    assert_same_answers.
    """
    from dynalyze.testing.checks import CompileChecks

    return CompileChecks()
