"""What raised while a frame was compiled: where in the program, in whose words, and whether eager raises it too."""

from __future__ import annotations

import re

from dynalyze.capture.events import ErrorSeen, Frame, MadeInEager
from dynalyze.events.log import ProcessLog
from dynalyze.facts.breaks import parse_message
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report import CompileFailure, Location

# Of an operation that failed on tensors without values: `call_method view(*(...), **{}): got ValueError('...')`.
_GOT = re.compile(r"""\bgot (?P<kind>\w+)\((?P<quote>['"])(?P<said>.*)(?P=quote),?\)\s*$""", re.DOTALL)
_BACKEND = re.compile(r"backend='(?P<name>[^']*)' raised:\s*\n(?P<said>.+)")
_NO_HINT = "Your code may result in an error when running in eager."
_LONGEST = 500


def made_in_eager(log: ProcessLog) -> dict[tuple[int, str], MadeInEager]:
    """How the calls ended in eager whose compiles had failed, by the compile that failed before each."""
    found: dict[tuple[int, str], MadeInEager] = {}
    last: ErrorSeen | None = None
    for event in log.events:
        if isinstance(event, ErrorSeen):
            last = event
        elif isinstance(event, MadeInEager) and last is not None:
            found[last.key] = event
    return found


def failure_of(error: ErrorSeen, again: MadeInEager | None, places: Places, sources: Sources) -> CompileFailure:
    """The facts of one error; without the live exception there is less."""
    frames = places.stack([], error.inside)
    own = [frame for frame in frames if places.origin(frame.file) == "user"]
    at = places.innermost(frames)
    innermost = own[-1] if own else frames[at] if at is not None else None
    backend = _BACKEND.search(error.message)
    told = parse_message(error.message)
    got = _GOT.search(told.explanation)
    if got is not None:
        quoted = got["said"].replace("\\n", " ").replace("\\'", "'")
        said = f"{got['kind']}: {quoted}"
    else:
        said = backend["said"] if backend is not None else told.explanation or told.gb_type
    return CompileFailure(
        exception=error.exception,
        message=" ".join(said.split())[:_LONGEST],
        hints=[hint for hint in told.hints if not hint.startswith(_NO_HINT)],
        location=_location(innermost, sources) if innermost is not None else None,
        stack=[_location(frame, sources) for frame in own],
        backend=backend["name"] if backend is not None else "",
        eager=again.error if again is not None else None,
    )


def _location(frame: Frame, sources: Sources) -> Location:
    return sources.location(frame.file, frame.line, frame.name, frame.column, frame.end_column)
