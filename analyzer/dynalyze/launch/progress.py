"""One line of ours beside the target's output: how far the work has come."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dynalyze.launch.streams import Streams
from dynalyze.text.visible import say


def progress_line(streams: Streams) -> tuple[Callable[[str], None], float]:
    """What shows a line, and every how many seconds: it renews itself on a terminal, in a log it is a plain one."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return streams.status, 1.0
    return say, 10.0


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """What shows each step as it begins; on a terminal nothing of it stays."""
    streams = Streams("")
    tell, _ = progress_line(streams)
    try:
        yield tell
    finally:
        streams.close()
