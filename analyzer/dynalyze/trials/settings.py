"""Reads trials for findings: settings that end graph breaks or recompiles, and settings that fail."""

from __future__ import annotations

import re
from collections.abc import Collection

from dynalyze.report import Finding, Recompile, Report
from dynalyze.rules.settings import ALL_SIZES, LIMIT, apart, as_python, read, setting_name
from dynalyze.text.amounts import count_of, listed
from dynalyze.trials.records import SettingTrial, SettingTrials

_DYNAMIC = as_python(ALL_SIZES)
_MOST_LINES = 2
_IN_WORDS = re.compile(r"torch\._dynamo\.config\.\w+ = \w+")


def trials_of(report: Report) -> SettingTrials | None:
    found: SettingTrials | None = getattr(report, "trials", None)
    return found


def setting_fails(report: Report, ids: set[str], setting: str = "") -> bool:
    """Whether the setting for these graph breaks and recompiles was tried, and ends none of them; "" is all but
    `dynamic=True`.
    """
    own = [each for each in _of(report, ids) if (each.setting == setting if setting else each.setting != _DYNAMIC)]
    return bool(own) and not any(ids.intersection(each.ended) for each in own)


def recompiled_instead(report: Report, ids: set[str]) -> Recompile | None:
    """What functions compile again for with a setting that does not end these recompiles, and only with it; None where
    another ends them all.
    """
    tried = [each for each in _of(report, ids) if not each.problem]
    if any(ids.intersection(each.against).issubset(each.ended) for each in tried):
        return None
    return next((each.instead for each in tried if each.instead is not None), None)


def named_by(finding: Finding) -> list[dict[str, object]]:
    """The settings of a finding, or those in torch's own words, each as it is tried."""
    config = finding.detail.config if finding.detail is not None else ""
    return apart(read(config or "\n".join(_IN_WORDS.findall(finding.advice))))


def tried_words(report: Report, finding: Finding) -> str:
    """The result of each setting that a finding names; "" where none was tried."""
    trials, ids = trials_of(report), set(finding.evidence)
    named = {*map(as_python, named_by(finding)), *([_DYNAMIC] if "dynamic=True" in finding.advice else [])}
    if trials is None:
        return ""
    tried = [each for each in _of(report, ids) if each.setting in named]
    said = "; ".join(_outcome(each, trials, ids) for each in tried)
    how = ", traced without the compiler" if any(each.ended and not each.compiled for each in tried) else ""
    if how and trials.together is not None and trials.together.problem:  # No time was left to find out which it is.
        how += ", which fails with all of the settings that help at once"
    return f"Tried on the {count_of(trials.calls, 'recorded call')}{how}: {said}" if said else ""


def _of(report: Report, ids: Collection[str]) -> list[SettingTrial]:
    trials = trials_of(report)
    return [each for each in trials.tried if not set(ids).isdisjoint(each.against)] if trials is not None else []


def _outcome(trial: SettingTrial, trials: SettingTrials, ids: set[str]) -> str:
    """ "with dynamic=True 3 of 4 are gone"."""
    met, ended, name = ids.intersection(trial.against), ids.intersection(trial.ended), setting_name(trial.setting)
    if trial.problem:
        return f"{name} raises {trial.problem}"
    if trial.setting.startswith(f"torch._dynamo.config.{LIMIT}"):
        return f"with {name} the limit is {'not ' if ended else ''}reached"
    if not ended:
        return f"{name} ends none of them"
    lines = listed([each.short for each in trial.new[:_MOST_LINES]])
    new = f", and the graph breaks at {lines} then" if lines else ""
    if trial.recompiles > trials.recompiles:
        new += f", with {trial.recompiles:,} recompiles in place of {trials.recompiles:,}"
    if len(ended) == len(met):
        every = {1: "it is gone", 2: "both are gone"}.get(len(met), f"all {len(met)} are gone")
        return f"with {name} {every}{new}"
    return f"with {name} {len(ended)} of {len(met)} are gone{new}"
