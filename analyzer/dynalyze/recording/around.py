"""Stacks without what stands around a recorded block: the frames of a notebook's kernel, or of a test runner."""

from __future__ import annotations

from dynalyze.events.log import RunLog
from dynalyze.events.types import BreakSeen, CompileStarted, ErrorSeen, Frame
from dynalyze.recording.place import Place


def leave_out_around(run: RunLog, place: Place) -> None:
    """Take the frames around the block out of every stack that begins with them."""
    for _, event in run.all():
        if isinstance(event, CompileStarted):
            event.stack = _inside(event.stack, place)
        elif isinstance(event, BreakSeen | ErrorSeen):
            event.above = _inside(event.above, place)


def _inside(stack: list[Frame], place: Place) -> list[Frame]:
    count = len(place.around)
    begins = tuple((frame.file, frame.name) for frame in stack[:count])
    return stack[count:] if begins == place.around else stack
