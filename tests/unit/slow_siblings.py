"""Cases of one kind that together take long: some of them in every run, the others with `make slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], every: int = 6) -> list[Any]:
    """The cases as parameters; the first of each so many runs always."""
    return [case if number % every == 0 else _slow(case) for number, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    name = case.id if hasattr(case, "marks") else None
    values = case.values if hasattr(case, "marks") else case if type(case) is tuple else (case,)
    return pytest.param(*values, id=name, marks=pytest.mark.slow)
