"""Where a condition stands in its line."""

from __future__ import annotations

import pytest

from dynalyze.facts.sources import condition_span


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        ("    if torch.isnan(x).any():", "torch.isnan(x).any()"),
        ("elif x > 0:  # late", "x > 0"),
        ("\twhile größe < 1: pass", "größe < 1"),
        ("assert x.ok, 'no'", "x.ok"),
        ("if not flag:", "not flag"),
        ("else:", ""),
        ("if x.sum(", ""),
        ("y = a if b else c", ""),
        ("elements = 1", ""),
        ("", ""),
    ],
)
def test_the_condition_of_a_line(line: str, condition: str) -> None:
    span = condition_span(line)
    assert (line[slice(*span)] if span else "") == condition
