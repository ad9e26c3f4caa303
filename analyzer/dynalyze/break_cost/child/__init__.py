"""What a measuring process is asked about the time of a call, and its answers; declared once for both processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dynalyze.capture.bench.protocol import Command

if TYPE_CHECKING:
    from dynalyze.capture.bench.worker import MeasuringSession


@dataclass
class Group:
    """Guards on one source, by torch's name for it, and on everything reached through it: `sources` in all.

    `holds` says what most of them look at: modules, tensors that are no parameters, or Python values.
    """

    source: str
    sources: int
    us: float
    holds: Literal["", "modules", "tensors", "values"] = ""


@dataclass
class GuardTime:
    """Microseconds of one check of all guards; `count` of them, None if torch does not say."""

    us: float
    count: int | None
    groups: list[Group] = field(default_factory=list)


Kind = Literal["graph", "break", "resume", "entry", "outside", "backward"]


@dataclass
class Segment:
    """One interval of a pass between two stamps: what ran in it, and its milliseconds in each timed pass.

    `compile_id` is that of the graph, of the version whose graph is next (resume, entry), or of the one whose break
    opened the gap. If a function left in eager ran, `function` is its file, name and first line.
    """

    kind: Kind
    compile_id: str = ""
    function: tuple[str, str, int] | None = None
    opened_by: str = ""
    ms: list[float] = field(default_factory=list)
    unguarded_ms: list[float] = field(default_factory=list)


@dataclass
class StampedPasses:
    """The measurements of whole passes and their segments. `plain_ms` and `stamped_ms` are whole passes; `hits` is how
    often each graph ran in one, by compile id; `calls` how many calls a pass makes. `waited` is the share of the time
    spent waiting for a core.
    """

    calls: int = 1
    problem: str = ""
    segments: list[Segment] = field(default_factory=list)
    plain_ms: list[float] = field(default_factory=list)
    stamped_ms: list[float] = field(default_factory=list)
    hits: dict[str, int] = field(default_factory=dict)
    guards: dict[str, GuardTime] = field(default_factory=dict)
    waited: float | None = None


@dataclass
class TakeApart(Command[StampedPasses], do="prices"):
    """Where the time of a call goes, after `record`: about so many seconds of passes."""

    seconds: float

    def carry_out(self, session: MeasuringSession) -> StampedPasses:
        if session.device in ("", "cpu"):
            from dynalyze.break_cost.child.stamps import prices

            return prices(session.steps, self.seconds)
        why = f"the parts of a call are timed on the CPU alone, and this one runs on {session.device}"
        return StampedPasses(calls=len(session.steps), problem=why)
