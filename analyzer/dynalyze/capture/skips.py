"""Tells of functions that torch leaves in eager without a graph break, each of them once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from dynalyze.capture.listener import Listener
from dynalyze.capture.torch_private.dynamo import frame_entry
from dynalyze.capture.torch_private.trace import Skipped, marked_disabled, watch_skips

DISABLED = "marked with torch.compiler.disable"
_MOST = 1000
_LONGEST_REASON = 500


class Skips:
    """Writes an event for a function that is left in eager; again, with the count, when that has doubled."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._counts: dict[tuple[Any, ...], int] = {}
        self._busy = threading.local()

    def watch(self) -> Callable[[], None]:
        """Listen to Dynamo, which has been imported; returns what ends it."""
        return watch_skips(self.tell)

    def tell(self, skipped: Skipped) -> None:
        """Called by the compiler: must not raise, and must not be called by what it does itself."""
        if getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            self._count(skipped)
        except Exception as error:
            self._listener.tell("lost", message=f"skipped function: {type(error).__name__}: {error}"[:500])
        finally:
            self._busy.now = False

    def tell_disabled(self, target: Any) -> None:
        """A function that is given to torch.compile although it is marked as never to be compiled."""
        code = marked_disabled(target)
        if code is not None:
            place = frame_entry(code.co_filename, code.co_firstlineno, code.co_name, None, None)
            self.tell(Skipped(place, DISABLED, entry=True, tensors=True))

    def _count(self, skipped: Skipped) -> None:
        reason = skipped.reason.partition("\n")[0][:_LONGEST_REASON]
        key = (skipped.code["file"], skipped.code["line"], skipped.code["name"], reason)
        count = self._counts.get(key, 0) + 1
        if count == 1 and len(self._counts) >= _MOST:
            return
        self._counts[key] = count
        if count & (count - 1) == 0:
            self._listener.tell(
                "skipped", code=skipped.code, reason=reason, owner=skipped.owner, entry=skipped.entry,
                tensors=skipped.tensors, count=count,
            )  # fmt: skip
