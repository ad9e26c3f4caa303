"""A recorded block: the line where it stands, what stands around it, and how it ended."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynalyze.capture.torch_private.dynamo import stack_above

if TYPE_CHECKING:
    from dynalyze.report import Outcome

_OURS = str(Path(__file__).resolve().parents[1])
_LONGEST = 2000


@dataclass(frozen=True)
class Place:
    """The line that began a recording; `around` are the frames outside its function, by file and name."""

    file: str
    line: int
    function: str
    around: tuple[tuple[str, str], ...] = ()

    @property
    def spec(self) -> str:
        """The place as a report names its target: `train.py:31`."""
        return f"{Path(self.file).name or 'block'}:{self.line}"


def here(outside: tuple[str, ...] = ()) -> Place:
    """The innermost line outside dynalyze, and outside of these folders."""
    frames = stack_above()
    while len(frames) > 1 and frames[-1].file.startswith((_OURS, *outside)):
        frames.pop()
    own = frames.pop()
    return Place(own.file, own.line, own.name, tuple((frame.file, frame.name) for frame in frames))


def ending(error: BaseException | None, seconds: float) -> Outcome:
    """How a block ended that `error` left, or that ended by itself: what was raised, and where."""
    from dynalyze.report import Outcome

    seconds = round(seconds, 3)
    if error is None or isinstance(error, GeneratorExit) or (isinstance(error, SystemExit) and not error.code):
        return Outcome("complete", seconds=seconds)
    if isinstance(error, KeyboardInterrupt):
        return Outcome("interrupted", "Interrupted from the keyboard.", seconds=seconds)
    said = traceback.format_exception_only(type(error), error)[-1].strip()[:_LONGEST]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    at = f" at {frames[-1].filename}:{frames[-1].lineno or 0}" if frames else ""
    return Outcome("failed", f"The block raised {said}{at}", seconds=seconds)
