"""Events as the ranks of a job write them, built by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from dynalyze.capture.events import (
    CompileEnded,
    CompileStarted,
    Event,
    FailedCheck,
    FailedVersion,
    Frame,
    ProcessStarted,
    RecompileSeen,
)
from dynalyze.watch.child.events import RankSeen, RankState, StepReached, StepSlow
from dynalyze.watch.follow import Read
from dynalyze.watch.job import JobState
from dynalyze.watch.notices import Notices, line_of
from dynalyze.watch.records import Notice


@dataclass
class Ranks:
    """A job of so many ranks; `lines` and `notices` are what was told of it by now."""

    count: int = 2
    hosts: tuple[str, ...] = ("node0",)
    restart: int = 0
    job: JobState = field(default_factory=JobState)
    now: float = 1000.0
    lines: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    steps: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = Notices(self.job)
        self.start()

    def start(self, restart: int = 0) -> None:
        """All ranks begin, or begin anew."""
        self.restart, self.steps = restart, {}
        for rank in range(self.count):
            self.feed(rank, ProcessStarted(pid=100 + rank, rank=rank))
            host = self.hosts[rank % len(self.hosts)]
            self.feed(rank, RankSeen(rank=rank, host=host, world=self.count, restart=restart))

    def feed(self, rank: int, *events: Event) -> None:
        for event in events:
            event.at = event.at or self.now
            self.job.feed(Read(f"{rank}-{self.restart}", event), self.now)

    def compile(
        self, rank: int, step: int, version: int = 0, *, seconds: float = 1.0, frame: int = 0, limit: bool = False,
        hits: int = 0, misses: int = 0, source: str = "n",
    ) -> None:  # fmt: skip
        """A compile of `forward`, from its first event to its last; version 1 and later are recompiles."""
        self.begin(rank, step, version, frame=frame, source=source)
        self.now += seconds
        fail = {"fail_type": "FailOnRecompileLimitHit", "fail_reason": "recompile_limit reached"} if limit else {}
        self.feed(rank, CompileEnded(id=f"{frame}/{version}", metrics={
            "has_guarded_code": not limit, "dynamo_cumulative_compile_time_us": seconds * 1e6,
            "entire_frame_compile_time_s": seconds, "inductor_fx_local_cache_hit_count": hits,
            "inductor_fx_local_cache_miss_count": misses, **fail,
        }))  # type: ignore[typeddict-item]  # fmt: skip

    def begin(self, rank: int, step: int, version: int = 0, *, frame: int = 0, source: str = "n") -> None:
        """A compile that has not ended yet."""
        self.feed(rank, StepReached(number=step))
        if version:
            check = FailedCheck(f"{source} == {version - 1}", str(version - 1), str(version))
            self.feed(rank, RecompileSeen(
                id=f"{frame}/{version}", text=json.dumps([f"{frame}/{version - 1}: {check.text}"]),
                versions=[FailedVersion(f"{frame}/{version - 1}", [check])], expected=check.expected,
                actual=check.actual, call=frame + 1,
            ))  # fmt: skip
        self.feed(rank, CompileStarted(id=f"{frame}/{version}", code=Frame("/job/model.py", 10 + frame, "forward")))

    def slow(self, rank: int, step: int, took: float, usual: float = 0.1, compiling: float = 0.0) -> None:
        self.feed(rank, StepSlow(number=step, took=took, usual=usual, compiling=compiling))

    def at_step(self, step: int) -> None:
        """Every rank has come to this step."""
        self.job.renew(
            {f"{rank}-{self.restart}": RankState(pid=100 + rank, rank=rank, world=self.count, at=self.now,
                                                 steps=step, restart=self.restart) for rank in range(self.count)},
            self.now,
        )  # fmt: skip

    def tell(self, *, over: bool = False) -> list[str]:
        """The lines that are new."""
        new = self.source.news(self.now, self.now, over=over)
        self.notices += new
        self.lines += (told := [line_of(each, self.count) for each in new])
        return told
