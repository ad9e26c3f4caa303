"""Where a recorded block stands, and what stands around it: a notebook's or a test runner's own frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dynalyze.capture.torch_private.dynamo import StackFrame, stack_above

_OURS = str(Path(__file__).resolve().parents[1])


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
    while len(frames) > 1 and frames[-1]["file"].startswith((_OURS, *outside)):
        frames.pop()
    own: StackFrame = frames.pop()
    return Place(own["file"], own["line"], own["name"], tuple((frame["file"], frame["name"]) for frame in frames))
