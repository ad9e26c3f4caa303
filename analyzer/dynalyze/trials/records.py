"""The part of a report on settings that were tried."""

from __future__ import annotations

import msgspec

from dynalyze.report import Recompile
from dynalyze.report.code import Location
from dynalyze.report.sensitivity import Message, Source, Word


class SettingTrial(msgspec.Struct):
    """Graph breaks and recompiles of the recorded calls with a setting, compared with those without.

    `setting` are the statements. `against` are the graph breaks and recompiles of the report that it is advised for
    and that these calls meet, by id, `ended` those of them that are gone. `breaks` and `recompiles` count all that are
    there with it, of the calls, and `new` are the lines that break with it alone. `instead` is the first recompile for
    the same tensors that is there with it alone. `compiled` says that the program's backend compiled the calls with
    it as well; `problem` says what was raised.
    """

    setting: Source
    against: list[Word] = []
    ended: list[Word] = []
    breaks: int = 0
    recompiles: int = 0
    new: list[Location] = []
    instead: Recompile | None = None
    compiled: bool = False
    problem: Message = ""


class SettingTrials(msgspec.Struct):
    """Settings that the advice names, tried on the recorded calls: traced, and compiled where they end something and
    there was time; `together` with all of these, where there are several. `calls`, and what they compile as the
    program is.
    """

    calls: int = 0
    breaks: int = 0
    recompiles: int = 0
    tried: list[SettingTrial] = []
    together: SettingTrial | None = None


FIELDS = {"trials": SettingTrials}
