"""The sentences that all renderers share."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from dynalyze.break_cost.records import SettingPrice
from dynalyze.break_cost.settings import setting_words
from dynalyze.render.text.report import (
    CAUSE_WORDS,
    COMPILATION_WORDS,
    EFFECTS,
    SEVERITY_WORDS,
    STATUS_WORDS,
    compile_time,
    duration,
    totals,
    tried_words,
    verdict,
)
from dynalyze.report import Cause, CompilationStatus, Effect, Finding, Severity, Status
from dynalyze.report.measurements import Interval
from sample_reports import (
    clean_report,
    compilation,
    empty_report,
    priced_report,
    recompile,
    rich_report,
)


@pytest.mark.parametrize("status", [status for status in get_args(Status) if status != "complete"])
def test_a_run_that_did_not_complete_never_sounds_clean(status: Status) -> None:
    for report in (empty_report(status), clean_report()):
        report.outcome.status = status
        assert not verdict(report).startswith("No graph breaks")
    assert "Nothing recompiled" not in verdict(empty_report(status))


def test_a_recompile_time_is_told_only_where_all_are_known() -> None:
    report = clean_report()
    report.recompiles = [recompile("r1", "0/1"), recompile("r2", "0/2", seconds=None)]
    assert verdict(report).startswith("No graph breaks and 2 recompiles. ")
    assert "recompiling" not in compile_time(report)


def test_totals_keep_unknown_apart_from_zero() -> None:
    report = empty_report()
    assert totals(report).seconds is None
    report.compilations = [compilation("0/0")]
    report.compilations[0].seconds = {}
    assert totals(report).seconds is None
    assert totals(rich_report()).compiled == 5
    assert totals(rich_report()).limits == 1


def test_inclusive_phases_are_not_added_up() -> None:
    def whole(**seconds: float) -> float | None:
        return msgspec.structs.replace(compilation("0/0"), seconds=seconds).whole_seconds

    assert whole(dynamo=19.2, inductor=17.5) == 19.2
    assert whole(dynamo=3.0, total=2.0) == 2.0
    assert whole(total=1.0, backend=0.9, backward=0.5) == 1.5
    assert whole(backward=0.5) == 0.5
    assert whole() is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0004, "0.4 ms"),
        (0.035, "35 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.10 s"),
        (0.996, "1.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_every_word_of_the_report_has_words() -> None:
    for words, values in (
        (CAUSE_WORDS, Cause),
        (STATUS_WORDS, Status),
        (COMPILATION_WORDS, CompilationStatus),
        (SEVERITY_WORDS, Severity),
        (EFFECTS, Effect),
    ):
        texts = [words[value] for value in get_args(values)]  # type: ignore[index]
        assert all(texts)
        assert len(set(texts)) == len(texts)


def test_a_setting_that_removes_one_of_two_breaks_is_told_of_that_one_alone() -> None:
    report = priced_report()
    prices = report.measurements[0].prices
    assert prices is not None
    one, other = prices.breaks
    other.setting, prices.settings[0].stays, prices.settings[1:] = one.setting, [other.place], []
    gone, stays = (
        tried_words(report, Finding("graph-break", "warning", "A break", evidence=[each.break_id]))
        for each in (one, other)
    )
    assert gone.startswith("measured with")
    assert stays.endswith("the graph still breaks here with it")


def test_a_difference_that_noise_can_make_is_not_called_one() -> None:
    saved = Interval(0.1, -0.1, 0.3)
    noise = SettingPrice("torch._dynamo.config.x = True", 0, [], Interval(2.0, 1.8, 2.2), 2.1, saved, 1)
    assert setting_words(noise).endswith("no difference shown")
