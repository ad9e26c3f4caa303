"""What ends breaks beside changes of source, and the lines that say so."""

from __future__ import annotations

import pytest

from dynalyze.fix.settings import as_python, merged, numbers_for, numbers_of
from dynalyze.report import GraphBreak, Location

_PLACE = Location("model.py", 3, None, "f")


def _broken(gb_type: str) -> GraphBreak:
    return GraphBreak("b1", None, gb_type, "split", _PLACE, [_PLACE])


@pytest.mark.parametrize("gb_type", ["Data dependent operator", "Data-dependent branching", "Missing tp_iternext"])
def test_arguments_of_whole_numbers_may_be_numbers_where_values_are_read(gb_type: str) -> None:
    (one, other) = numbers_for(_broken(gb_type), ["sizes", "grid"])
    both = merged(one.settings, other.settings)
    assert numbers_of(both) == ["sizes", "grid"] and one.last_resort
    assert as_python({"capture_scalar_outputs": True, **both}).splitlines() == [
        "torch._dynamo.config.capture_scalar_outputs = True",
        "# Where the model is called: model(..., sizes=sizes.tolist(), grid=grid.tolist())",
    ]


def test_numbers_beside_a_tensor_are_told_by_their_own_name() -> None:
    (line,) = as_python({"arguments_as_numbers": ["grid_numbers=grid"]}).splitlines()
    assert line == "# Where the model is called: model(..., grid_numbers=grid.tolist())"


def test_other_breaks_have_nothing_to_do_with_them() -> None:
    assert not list(numbers_for(_broken("Failed to trace logging"), ["sizes"]))
    assert numbers_of({}) == [] and numbers_of({"capture_scalar_outputs": True}) == []
