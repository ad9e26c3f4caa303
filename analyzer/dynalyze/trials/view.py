"""The section on settings that were tried, with the graph breaks and recompiles of each."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.render.text.report import line_words
from dynalyze.render.view.links import Anchors, Index
from dynalyze.render.view.measurements import Table
from dynalyze.render.view.page import Section
from dynalyze.report import Report
from dynalyze.rules.settings import setting_name
from dynalyze.text.amounts import count_of, listed
from dynalyze.trials.records import SettingTrial, SettingTrials
from dynalyze.trials.settings import trials_of

ANCHORS = ("trials",)
_MOST_LINES = 3


def sections(report: Report, links: Index, anchors: Anchors) -> list[Section]:
    trials = trials_of(report)
    return [] if trials is None else [Section(TrialsView(trials), "trials", "Settings tried", folder="trials")]


class TrialsView:
    """A row without settings, one with each, and one with all that help, whose statements are `whole`."""

    def __init__(self, trials: SettingTrials) -> None:
        self.calls = count_of(trials.calls, "recorded call")
        rows = [["none", f"{trials.breaks:,}", f"{trials.recompiles:,}", "", ""], *_rows(trials)]
        heads = ["Settings", "Graph breaks", "Recompiles", "Gone", "Breaks then at"]
        self.table = Table("Graph breaks and recompiles with settings that the advice names", heads, rows)
        together = trials.together
        self.whole = together.setting if together is not None and together.ended else ""


def _rows(trials: SettingTrials) -> Iterator[list[str]]:
    for each in trials.tried:
        yield _row(setting_name(each.setting), each)
    if trials.together is not None:
        yield _row("all that help", trials.together)


def _row(name: str, trial: SettingTrial) -> list[str]:
    if trial.problem:
        return [name, "", "", trial.problem, ""]
    gone = f"{len(trial.ended)} of {len(trial.against)}"
    new = listed([line_words(each) for each in trial.new], _MOST_LINES) if trial.new else ""
    return [name, f"{trial.breaks:,}", f"{trial.recompiles:,}", gone, new]
