"""What came of the settings that were timed against graph breaks."""

from __future__ import annotations

from dynalyze.break_cost.records import SettingPrice, prices_of
from dynalyze.report import Finding, Report
from dynalyze.rules.settings import setting_name
from dynalyze.text.amounts import milliseconds

STAYS = "the graph still breaks here with it"


def setting_fails(report: Report, ids: set[str], _setting: str = "") -> bool:
    """Whether the setting against these graph breaks, which have one, was tried and removes none."""
    trials = [each.tried_for(ids) for each in prices_of(report.measurements)]
    return any(tried is not None for tried, _ in trials) and not any(removes for _, removes in trials)


def tried_words(report: Report, finding: Finding) -> str:
    """What came of a setting tried against the graph breaks of a finding; "" if none was."""
    trials = (each.tried_for(finding.evidence) for each in prices_of(report.measurements))
    tried, removes = next((trial for trial in trials if trial[0] is not None), (None, False))
    if tried is None:
        return ""
    return setting_words(tried) if removes else f"{setting_name(tried.setting)} was tried: {STAYS}"


def setting_words(tried: SettingPrice) -> str:
    """ "with capture_scalar_outputs = True a call takes 2.20 ms (2.10 to 2.30), 0.90 ms less": measured."""
    name = setting_name(tried.setting)
    if tried.ms is None or tried.saved_ms is None:
        return f"{name} was tried: {tried.problem}"
    low, value, high = tried.saved_ms.low, tried.saved_ms.value, tried.saved_ms.high
    differs = low > 0 or high < 0
    against = f"{milliseconds(abs(value))} {'less' if value > 0 else 'more'}" if differs else "no difference shown"
    ends = f"{milliseconds(tried.ms.low)} to {milliseconds(tried.ms.high)}"
    return f"measured with {name}: {milliseconds(tried.ms.value)} a call ({ends}), {against}"
