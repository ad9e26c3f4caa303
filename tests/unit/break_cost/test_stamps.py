"""What a stamp is told to cost: only what clearly comes out of enough passes that were stamped twice."""

import pytest

from dynalyze.break_cost.child import Segment
from dynalyze.break_cost.child.stamps import Stamps, _Passes

LAYOUT = [[(("begin", ""), Segment("entry")), *[(("graph", "0/0"), Segment("graph"))] * 10]]


@pytest.mark.parametrize(
    ("added", "stamp_ms"),
    [
        ([0.001] * 20, 0.0001),
        ([0.3], 0.0005),  # One reading can be anything.
        ([0.3, -0.3, 0.1, -0.1, 0.2, -0.2, 0.3, -0.1, 0.4, 0.1], 0.0005),
        ([-0.2] * 20, 0.0),
        ([], 0.0),
    ],
)
def test_the_price_of_a_stamp(added: list[float], stamp_ms: float) -> None:
    assert _Passes([], Stamps(), LAYOUT, added=added).stamp_ms() == pytest.approx(stamp_ms)


def test_a_stamp_is_never_told_to_cost_many_times_what_it_takes() -> None:
    """Passes that are slow for another reason, as one of another program, do not make stamps dear."""
    assert _Passes([], Stamps(), LAYOUT, added=[30.0] * 20).stamp_ms() < 1.0
