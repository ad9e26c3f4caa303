"""Which setting is tried first, and what its samples say; the processes that give them stand in tests/integration."""

from __future__ import annotations

import pytest

from dynalyze.break_cost.records import BreakPrice, Prices, SettingPrice
from dynalyze.break_cost.run import conclude, to_try
from dynalyze.report import Location
from dynalyze.report.measurements import Interval, Pair
from dynalyze.rules.rule import judge
from sample_break_cost import PRINTS, SCALARS
from sample_reports import priced_report

CLOSE = [Pair([1.0], [ratio]) for ratio in (0.99, 1.0, 1.01, 1.0, 0.99)]


def price(line: int, ms: float, setting: str) -> BreakPrice:
    return BreakPrice(Location("/model.py", line), "A type", Interval(ms, ms, ms), ms, 0.0, ms / 9, setting=setting)


def concluded(pairs: list[Pair], control: list[Pair]) -> SettingPrice:
    found = SettingPrice(SCALARS)
    conclude(found, pairs, control, 1)
    return found


def test_the_setting_for_the_dearest_breaks_is_tried_first_and_none_twice() -> None:
    prices = Prices(breaks=[price(3, 1.0, PRINTS), price(5, 0.7, SCALARS), price(7, 0.6, SCALARS), price(9, 4.0, "")])
    assert [(setting, [each.place.line for each in breaks]) for setting, breaks in to_try(prices)] == [
        (SCALARS, [5, 7]), (PRINTS, [3]),
    ]  # fmt: skip
    prices.settings = [SettingPrice(SCALARS)]
    assert [setting for setting, _ in to_try(prices)] == [PRINTS]


def test_a_clear_gain_is_shown_and_its_ends_belong_together() -> None:
    found = concluded([Pair([3.0] * 9, [2.0] * 9)], CLOSE)
    assert found.ms is not None and found.saved_ms is not None and found.plain_ms == pytest.approx(3.0)
    assert (found.ms.value, found.saved_ms.value) == (pytest.approx(2.0), pytest.approx(1.0))
    assert found.ms.low < found.ms.value < found.ms.high
    assert 0 < found.saved_ms.low < found.saved_ms.value < found.saved_ms.high
    assert found.saved_ms.low == pytest.approx(3.0 - found.ms.high)


def test_what_two_equal_processes_may_differ_by_is_no_gain() -> None:
    wild = [Pair([1.0], [ratio]) for ratio in (0.9, 1.1, 1.0, 0.95, 1.05)]
    found = concluded([Pair([3.0] * 9, [2.8] * 9)], wild)
    assert found.saved_ms is not None
    assert found.saved_ms.low < 0 < found.saved_ms.high


def test_nothing_is_told_where_equal_processes_differ_by_more_than_two_times() -> None:
    found = concluded([Pair([3.0] * 9, [2.0] * 9)], [Pair([1.0], [ratio]) for ratio in (0.3, 3.0, 1.0, 2.0)])
    assert found.ms is None
    assert "too busy" in found.problem


def test_one_pair_alone_shows_nothing() -> None:
    found = concluded([Pair([3.0] * 9, [2.0] * 9)], CLOSE[:1])
    assert found.ms is None
    assert "too few pairs" in found.problem


def test_a_setting_that_was_tried_in_vain_is_not_advised() -> None:
    report = priced_report()
    prices = report.measurements[0].prices
    assert prices is not None
    broken = prices.breaks[0]

    def advised() -> set[str]:
        return {each.detail.config for each in judge(report) if broken.break_id in each.evidence and each.detail}

    assert PRINTS in advised()
    prices.settings[0].stays = [broken.place]
    assert PRINTS not in advised()
