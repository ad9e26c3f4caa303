"""What a measuring process is asked of the time of a call, and answers; the parent declares nothing of it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dynalyze.capture.bench.protocol import Command

if TYPE_CHECKING:
    from dynalyze.capture.bench.worker import MeasuringSession


@dataclass
class Group:
    """Guards on one source, by torch's name for it, and on all that is reached by it: so many `sources`.

    `holds` says what most of them look at: modules, tensors that are no parameters, or values of Python.
    """

    source: str
    sources: int
    us: float
    holds: Literal["", "modules", "tensors", "values"] = ""


@dataclass
class GuardTime:
    """Microseconds of one check of all guards; `count` of them, None where torch does not tell."""

    us: float
    count: int | None
    groups: list[Group] = field(default_factory=list)


Kind = Literal["graph", "break", "resume", "entry", "outside", "backward"]


@dataclass
class Segment:
    """One interval of a pass between two stamps: what ran in it, and milliseconds in each timed pass.

    `compile_id` is that of the graph, of the version whose graph is next (resume, entry), or of the one whose break
    opened the gap. Where a function that was left in eager ran, `function` is its file, name and first line.
    """

    kind: Kind
    compile_id: str = ""
    function: tuple[str, str, int] | None = None
    opened_by: str = ""
    ms: list[float] = field(default_factory=list)
    unguarded_ms: list[float] = field(default_factory=list)


@dataclass
class StampedPasses:
    """What the parent makes prices of. `plain_ms` and `stamped_ms` are whole passes; `hits` how often each graph ran in
    one, by compile id; `calls` how many calls a pass makes. `waited` is the share of the time without a core to run on.
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
