"""The private APIs through which torch tells what its compiler does: its structured trace and its own counters.

Run on torch 2.8, 2.13 and 2.15.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynalyze.capture.adapter import CALL_BOUNDARY, COMPILE_BOUNDARY, StackFrame, frame_entry, frames_from
from dynalyze.capture.layers import Layer

TRACE_LOGGER = "torch.__trace"

Hear = Callable[[dict[str, Any], Any], None]
TellUntraced = Callable[[str, StackFrame, bool], None]


def listen(hear: Hear) -> Callable[[], None]:
    """Call `hear(metadata, payload)` with every record of the structured trace; returns what ends it.

    torch looks its trace logger up by a name in one module, and something that passes the records on stands there in
    its place: no logger that a program can find and reconfigure, and what it does to those that it finds changes
    nothing here. Where torch has no such name, a handler of the logger hears as much as logging lets it.
    """
    module = sys.modules.get("torch._logging._internal")
    logger = getattr(module, "trace_log", None)
    if isinstance(logger, logging.Logger):
        logger = _HeardLogger(logger)
        module.trace_log = logger  # type: ignore[union-attr]
    if isinstance(logger, _HeardLogger):
        logger.hearers.append(hear)
        return lambda: _stop(logger, hear)
    handler = _Hearing(hear)
    # First in the list: torch's own lazy handler removes itself at its first record, and the next one would miss that.
    logging.getLogger(TRACE_LOGGER).handlers.insert(0, handler)
    return lambda: logging.getLogger(TRACE_LOGGER).removeHandler(handler)


def _stop(heard: _HeardLogger, hear: Hear) -> None:
    heard.hearers.remove(hear)
    module = sys.modules.get("torch._logging._internal")
    if not heard.hearers and getattr(module, "trace_log", None) is heard:
        module.trace_log = heard.logger  # type: ignore[union-attr]


class _HeardLogger:
    """Stands for torch's trace logger: each record goes to `hearers`, and on to the logger if that has handlers."""

    logger: logging.Logger
    hearers: list[Hear]

    def __init__(self, logger: logging.Logger) -> None:
        vars(self).update(logger=logger, hearers=[])

    @property
    def handlers(self) -> list[logging.Handler]:
        """Those of the logger; never empty, since torch makes no record then."""
        return self.logger.handlers or [_NOBODY]

    def debug(self, message: str, *, extra: dict[str, Any], stacklevel: int = 1) -> None:
        for hear in list(self.hearers):
            hear(extra.get("metadata") or {}, extra.get("payload"))
        if self.logger.handlers:
            self.logger.debug(message, extra=extra, stacklevel=stacklevel + 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.logger, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.logger, name, value)


class _Hearing(logging.Handler):
    def __init__(self, hear: Hear) -> None:
        super().__init__(logging.DEBUG)
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(getattr(record, "metadata", None) or {}, getattr(record, "payload", None))


_NOBODY = logging.NullHandler()


@dataclass(frozen=True)
class Counted:
    """What torch itself has counted in this process so far: graphs, graph breaks, ends of compiles.

    The last of them is of those that torch still holds, which are the latest 64 or so.
    """

    graphs: int = 0
    breaks: int = 0
    ends: int = 0


def counted() -> Counted:
    """torch's own counts; zeros where Dynamo was not imported or has no such counters."""
    utils = sys.modules.get("torch._dynamo.utils")
    with contextlib.suppress(Exception):
        counters, metrics = utils.counters, utils.get_compilation_metrics()  # type: ignore[union-attr]
        # Read without making entries: `counters` is a defaultdict that programs print.
        graphs = counters.get("stats", {}).get("unique_graphs", 0)
        return Counted(int(graphs), int(sum(counters.get("graph_break", {}).values())), len(metrics))
    return Counted()


def watch_untraced_breaks(tell: TellUntraced) -> Callable[[], None]:
    """Call `tell(message, frame, refused)` for a break raised before tracing begins, which no record reports.

    A generator passed to torch.compile is refused so. torch only counts it, in one method of the exception, which is
    replaced by one that looks at who raises. Returns what ends it.
    """
    broken = getattr(sys.modules.get("torch._dynamo.exc"), "Unsupported", None)
    if not hasattr(broken, "add_to_stats"):
        return lambda: None
    layer = Layer(broken, "add_to_stats")

    def add_to_stats(self: Any, category: str = "unimplemented") -> None:
        layer.original(self, category)
        if layer.active and category == "unimplemented":
            offered = _offered_frame()
            if offered is not None:
                tell(self.msg, *offered)

    return layer.put(add_to_stats)


def _offered_frame() -> tuple[StackFrame, bool] | None:
    """The frame that was offered to the compiler, and whether fullgraph was asked for, when an Unsupported is
    raised outside `_compile`.
    """
    for frame in frames_from(sys._getframe(2)):
        code = frame.f_code
        if code.co_name == "_compile":
            return None
        if code.co_name == "__call__" and code.co_filename.endswith(COMPILE_BOUNDARY):
            offered = getattr(frame.f_locals.get("frame"), "f_code", None)
            if offered is not None and _called_by_wrapper(frame):
                entry = frame_entry(offered.co_filename, offered.co_firstlineno, offered.co_name, None, None)
                return entry, bool(getattr(frame.f_locals.get("self"), "_one_graph", False))
    return None


def _called_by_wrapper(frame: types.FrameType) -> bool:
    """Whether the compiled function itself was offered, not one that it calls while it runs in eager."""
    outer = frame.f_back
    while outer is not None and outer.f_code.co_filename.endswith(COMPILE_BOUNDARY):
        outer = outer.f_back
    return outer is not None and outer.f_code.co_filename.endswith(CALL_BOUNDARY)
