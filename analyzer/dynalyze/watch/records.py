"""What a report tells of a watched job: its ranks, and what was told of them while it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from dynalyze.report.code import Location
from dynalyze.report.sensitivity import Machine, Message, Quote, Word

if TYPE_CHECKING:
    from dynalyze.report import Report

NoticeKind = Literal["recompile", "compile", "compiling", "limit", "cache-miss", "memory"]
"""recompile, compile: after warm-up a function was compiled again, or for the first time. compiling: it still is.
limit: the recompile limit was reached, so that the function runs in eager. cache-miss: one machine compiled what the
others took from a cache. memory: compile workers leave little of what the machine has.
"""


class Notice(msgspec.Struct):
    """Something that a job did, at second `at` of it, in step `step` of these ranks; `what` changed, in words, and what
    else there is to say, in the `note`.

    `alone`: other ranks run the same step and compiled nothing. `seconds` is the longest of these compiles; `waited`
    are the seconds by which the steps of other ranks were longer than usual meanwhile. `again` counts compiles of the
    same function that were not told one by one before this one.
    """

    kind: NoticeKind
    what: Quote
    at: float
    step: int | None = None
    ranks: list[int] = []
    alone: bool = False
    location: Location | None = None
    cause: Word = ""
    source: Quote | None = None
    expected: Quote | None = None
    actual: Quote | None = None
    guard: Quote = ""
    seconds: float | None = None
    waited: dict[Word, float] = {}
    again: int = 0
    note: Message = ""


class JobRank(msgspec.Struct):
    """One process of the job. `usual_ms` is the running median of its steps, `waited_seconds` what they took longer.

    The latter is while others compiled. `counted_by` tells its steps: "optimizer", "step" or "calls". `status`: it ran
    when this was written, it ended, or it is gone without a word.
    """

    process: int
    rank: int | None
    host: Machine
    pid: int
    restart: int
    status: Literal["running", "ended", "gone"]
    steps: int
    counted_by: Word
    usual_ms: float | None
    compiles: int
    recompiles: int
    compile_seconds: float
    waited_seconds: float


class Compiled(msgspec.Struct):
    """A compile on the timeline of the job: seconds of the job, and the step of its rank."""

    process: int
    step: int | None
    began: float
    seconds: float
    again: bool


class Job(msgspec.Struct):
    """A watched job. `seconds` is how long its events go on; `untold` counts what was not told one by one."""

    seconds: float
    ranks: list[JobRank] = []
    notices: list[Notice] = []
    compiles: list[Compiled] = []
    untold: int = 0
    lost_events: int = 0


FIELDS = {"job": Job}


def job_of(report: Report) -> Job | None:
    """The watched job that a report is of."""
    return getattr(report, "job", None)
