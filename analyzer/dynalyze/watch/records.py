"""The report's part on a watched job: its ranks, and the notices given while it ran."""

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
    """An event of a job, at its second `at`, in step `step` of these ranks; `what` says what changed, `note` the rest.

    `alone`: other ranks run the same step and compiled nothing. `seconds` is the longest of these compiles; `waited`
    are the seconds by which the steps of other ranks were longer than usual meanwhile. `again` counts changes of the
    same function that were held back before this one.
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
    """One process of the job. `usual_ms` is the running median of its steps, `waited_seconds` how much longer they took
    while others compiled. `counted_by` is what counts its steps: "optimizer", "step" or "calls". `status`: running when
    this was written, ended, or gone without a word.
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


class TimelineCompile(msgspec.Struct):
    """A compile on the job's timeline: seconds since its beginning, and the step of the rank."""

    process: int
    step: int | None
    began: float
    seconds: float
    again: bool


class Job(msgspec.Struct):
    """A watched job. `seconds` is from its first event to the last; `untold` counts changes without a notice."""

    seconds: float
    ranks: list[JobRank] = []
    notices: list[Notice] = []
    compiles: list[TimelineCompile] = []
    untold: int = 0
    lost_events: int = 0


FIELDS = {"job": Job}


def job_of(report: Report) -> Job | None:
    """The watched job that a report is of."""
    return getattr(report, "job", None)
