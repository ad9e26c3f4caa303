"""Attributes that are moved to where they are already."""

from __future__ import annotations

import pytest
from rewriting_cases import KNOWN, changed, lines

from dynalyze.fix.sites import Value

_BROKEN = "Unsupported python_type() call"
_HELD = {**KNOWN, "self.table": Value("tensor", "Tensor", "float32", 2), "device": Value("device"),
         "kind": Value("dtype")}  # fmt: skip


def test_it_is_moved_only_where_it_is_not_there() -> None:
    found = changed(_BROKEN, "# Where x is.\nself.table = self.table.to(device=device, dtype=x.dtype)  # here", _HELD)
    assert found["move-where-needed"] == lines(
        """
        # Where x is.
        if self.table.device != device or self.table.dtype != x.dtype:
            self.table = self.table.to(device=device, dtype=x.dtype)
        """
    )


@pytest.mark.parametrize(
    "statement",
    [
        "self.table = self.table.to(x)",
        "self.table = self.table.to(device, copy=True)",
        "self.other = self.table.to(device)",
        "self.table = self.table.to()",
        "self.table = self.table.to(device=kind)",
        "self.maybe = self.maybe.to(device)",
    ],
)
def test_other_moves_are_left_alone(statement: str) -> None:
    assert "move-where-needed" not in changed(_BROKEN, f"{statement}  # here", _HELD)
