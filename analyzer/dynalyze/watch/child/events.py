"""Events that a watched process writes beside the compiler's, declared for both sides."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.capture import events
from dynalyze.capture.events import Event

FOLDER_VARIABLE = "DYNALYZE_WATCH"
"""The variable with the folder of the job, in the environment of its processes."""
BYTES_VARIABLE = "DYNALYZE_WATCH_BYTES"
DEFAULT_BYTES = 256 << 20

STATES_FOLDER = "ranks"
JOB_FILE = "watch.json"
"""The file that marks the folder of a watched job."""


class RankSeen(Event, tag="watch_rank"):
    """The place of a process in its job; the second line of each part of its log."""

    rank: events.Whole | None = None
    host: str = ""
    world: events.Whole | None = None
    restart: events.Whole = 0
    part: events.Whole = 0


class StepReached(Event, tag="watch_step"):
    """The events after this one happened when `number` steps had ended."""

    number: events.Count = 0


class StepSlow(Event, tag="watch_slow"):
    """A step that took longer than usual, or compiled; in seconds. `usual` is the running median, None before it."""

    number: events.Count = 0
    took: events.Length = 0.0
    usual: events.Length | None = None
    compiling: events.Length = 0.0


class EventsLeftOut(Event, tag="watch_left_out"):
    """How many repeated events were not written so far, by tag."""

    counts: dict[str, events.Count]


@dataclass
class RankState:
    """The state of a process, rewritten twice a second while it changes; times in seconds.

    `counted_by` is what counts its steps: "step" (calls of dynalyze.step), "optimizer", or "calls" of compiled code.
    `compiles` counts frames, `recompiles` those compiled before. `ended`: the process exited normally.
    """

    pid: events.Whole = 0
    rank: events.Whole | None = None
    world: events.Whole | None = None
    host: str = ""
    restart: events.Whole = 0
    began: events.Length = 0.0
    at: events.Length = 0.0
    steps: events.Count = 0
    counted_by: str = ""
    usual: events.Length | None = None
    compiles: events.Count = 0
    recompiles: events.Count = 0
    compile_seconds: events.Length = 0.0
    lost: events.Count = 0
    ended: bool = False
