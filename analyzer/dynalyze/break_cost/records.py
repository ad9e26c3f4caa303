"""Where the time of a call goes: the part of a measurement on graph breaks and guards."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from dynalyze.report.code import Location
from dynalyze.report.intervals import Interval
from dynalyze.report.sensitivity import BreakType, Message, Quote, Word

if TYPE_CHECKING:
    from dynalyze.report.measurements import Measurement

PartKind = Literal["graph", "backward", "break", "resume", "guards", "entry", "outside"]
"""What runs in a part of a call.

graph, backward: a compiled graph. break: eager code from where a graph break ends a graph to the next one, or a
function that the break left in eager. resume: getting into the compiled rest of a function that a break split.
guards: the checks before compiled code runs. entry: getting into the first graph. outside: what the program does
around all that.
"""


class CallPart(msgspec.Struct):
    """One part of a call. Parts of a call follow each other in the list as they do in time, and add up to it.

    `break_id` is that of the graph break whose cost it is, "" where it is none's or one that the report does not have;
    `place` is the line of the break, else the function that runs.
    """

    kind: PartKind
    ms: float
    place: Location | None = None
    break_id: Word = ""
    compile_id: Word = ""


class BreakPrice(msgspec.Struct):
    """What one graph break takes of a call: `gap_ms` in eager, `resume_ms` to get back into compiled code, guards
    included.

    `without_ms` is the call less that: what a call takes at best without the break, as long as its graphs take what
    they take now. `setting` are the statements by which torch may remove it without a change of the code.
    """

    place: Location
    gb_type: BreakType
    ms: Interval
    gap_ms: float
    resume_ms: float
    share: float
    break_id: Word = ""
    without_ms: float = 0.0
    setting: Word = ""


class SettingPrice(msgspec.Struct):
    """What a call takes where the same program is compiled with a setting that removes graph breaks, timed in turns
    with a process that has not got it.

    `left` counts the graph breaks that there are with it; `stays` are those that it was tried for and that it does not
    remove. `ms` is of a call with it, `plain_ms` of one without,
    `saved_ms` the difference, from so many `pairs` of processes. `problem` says why there are none.
    """

    setting: Word
    left: int | None = None
    stays: list[Location] = []
    ms: Interval | None = None
    plain_ms: float | None = None
    saved_ms: Interval | None = None
    pairs: int = 0
    problem: Message = ""


class GuardGroup(msgspec.Struct):
    """Guards on one source and on all that is reached by it; `share` of what all guards of the version take.

    `holds` says what most of them look at: modules, tensors that are no parameters, or values of Python. `advice` is a
    change of the source that fits, which nobody has tried on this program.
    """

    source: Quote
    sources: int
    share: float
    us: float
    holds: Literal["modules", "tensors", "values", ""] = ""
    advice: Message = ""


class GuardPrice(msgspec.Struct):
    """The guards of one version of a function: `us` are microseconds in one call, `count` how many are checked."""

    compile_id: Word
    place: Location | None
    us: float
    count: int | None = None
    groups: list[GuardGroup] = []


class Prices(msgspec.Struct):
    """Where the time of a compiled call goes, measured with the model warm in a process of its own.

    Nothing here is estimated: where the parts do not add up to the call, `problem` says so and there are none.

    `call_ms` is of calls without anything in between, `passes` how many were timed. `runs` are the compiled graphs that
    run in a call, by compile id. `settings` were tried as the counterfactual. `waited` is the share of the time in
    which the calls had no core to run on, for what else the machine did.
    """

    call_ms: Interval | None = None
    passes: int = 0
    parts: list[CallPart] = []
    breaks: list[BreakPrice] = []
    guards: list[GuardPrice] = []
    runs: dict[Word, float] = {}
    problem: Message = ""
    settings: list[SettingPrice] = []
    waited: float | None = None

    def tried_for(self, ids: Container[str]) -> tuple[SettingPrice | None, bool]:
        """The setting that was tried against these graph breaks, None if none was; and whether it removes one."""
        places = {each.place: each.setting for each in self.breaks if each.break_id in ids}
        tried = next((each for each in self.settings if each.setting in places.values()), None)
        if tried is None:
            return None, False
        stay = {place.at for place in tried.stays}
        return tried, any(setting == tried.setting and place.at not in stay for place, setting in places.items())


FIELDS = {"prices": Prices}


def prices_of(measured: Iterable[Measurement]) -> list[Prices]:
    return [found for each in measured if (found := getattr(each, "prices", None)) is not None]
