"""What Dynamo tells while it compiles: its structured trace, its counts, and the functions that it leaves in eager.

Run on torch 2.8, 2.13 and 2.15; reasons for skipped functions on 2.13 alone: older versions note none, and nothing is
claimed.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

from dynalyze.capture.events import BreakSeen, Frame, SkippedSeen
from dynalyze.capture.hooks import Patch
from dynalyze.capture.installed import is_torchs
from dynalyze.capture.torch_private.dynamo import (
    CALL_BOUNDARY,
    COMPILE_BOUNDARY,
    definition_of,
    frames_from,
    stack_above,
)
from dynalyze.capture.torch_private.runtime import counters

TRACE_LOGGER = "torch.__trace"

Handle = Callable[[dict[str, Any], Any], None]
_NOBODY = logging.NullHandler()
_MOST_VALUES = 50


def listen(handle: Handle) -> Callable[[], None]:
    """Call `handle(metadata, payload)` with every record of the structured trace; returns what ends it.

    torch looks its trace logger up by a name in one module, and something that passes the records on stands there in
    its place: no logger that a program can find and reconfigure, and what it does to those that it finds changes
    nothing here. Where torch has no such name, a handler of the logger hears as much as logging lets it.
    """
    module: Any = sys.modules.get("torch._logging._internal")
    logger = getattr(module, "trace_log", None)
    if isinstance(logger, logging.Logger):
        module.trace_log = logger = _TappedLogger(logger)
    if isinstance(logger, _TappedLogger):
        tapped = logger
        tapped.taps.append(handle)

        def stop() -> None:
            tapped.taps.remove(handle)
            if not tapped.taps and getattr(module, "trace_log", None) is tapped:
                module.trace_log = tapped.logger

        return stop
    handler = _TraceHandler(handle)
    # First in the list: torch's own lazy handler removes itself at its first record, and the next one would miss that.
    logging.getLogger(TRACE_LOGGER).handlers.insert(0, handler)
    return lambda: logging.getLogger(TRACE_LOGGER).removeHandler(handler)


class _TappedLogger:
    """Stands for torch's trace logger: each record goes to the `taps`, and on to the logger if that has handlers."""

    logger: logging.Logger
    taps: list[Handle]

    def __init__(self, logger: logging.Logger) -> None:
        vars(self).update(logger=logger, taps=[])

    @property
    def handlers(self) -> list[logging.Handler]:
        """Those of the logger; never empty, since torch makes no record then."""
        return self.logger.handlers or [_NOBODY]

    def debug(self, message: str, *, extra: dict[str, Any], stacklevel: int = 1) -> None:
        for handle in list(self.taps):
            handle(extra.get("metadata") or {}, extra.get("payload"))
        if self.logger.handlers:
            self.logger.debug(message, extra=extra, stacklevel=stacklevel + 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.logger, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.logger, name, value)


class _TraceHandler(logging.Handler):
    def __init__(self, handle: Handle) -> None:
        super().__init__(logging.DEBUG)
        self._handle = handle

    def emit(self, record: logging.LogRecord) -> None:
        self._handle(getattr(record, "metadata", None) or {}, getattr(record, "payload", None))


@dataclass(frozen=True)
class Counted:
    """What torch itself has counted in this process so far: graphs, graph breaks, ends of compiles.

    The last of them is of those that torch still holds, which are the latest 64 or so. Of what is compiled while a
    graph runs (Triton's tuning, CUDA graphs) torch keeps metrics among them that are no end of a compile.
    """

    graphs: int = 0
    breaks: int = 0
    ends: int = 0


def counted() -> Counted:
    """torch's own counts; zeros where Dynamo was not imported or has no such counters."""
    with contextlib.suppress(Exception):
        metrics = sys.modules["torch._dynamo.utils"].get_compilation_metrics()
        ends = sum(not getattr(each, "is_runtime", False) for each in metrics)
        return Counted(counters("stats").get("unique_graphs", 0), sum(counters("graph_break").values()), ends)
    return Counted()


def watch_untraced_breaks(emit: Callable[[BreakSeen], None]) -> Callable[[], None]:
    """Call `emit` for a break raised before tracing begins, which no record reports.

    A generator passed to torch.compile is refused so. torch only counts it, in one method of the exception, which is
    replaced by one that looks at who raises. Returns what ends it.
    """
    broken = getattr(sys.modules.get("torch._dynamo.exc"), "Unsupported", None)
    if not hasattr(broken, "add_to_stats"):
        return lambda: None
    patch = Patch(broken, "add_to_stats")

    def add_to_stats(self: Any, category: str = "unimplemented") -> None:
        patch.original(self, category)
        if patch.active and category == "unimplemented" and (offered := _offered_frame()) is not None:
            frame, refused = offered
            emit(BreakSeen(message=self.msg, above=stack_above(), inside=[frame], untraced=True, refused=refused))

    return patch.put(add_to_stats)


def _offered_frame() -> tuple[Frame, bool] | None:
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
                return definition_of(offered), bool(getattr(frame.f_locals.get("self"), "_one_graph", False))
    return None


def _called_by_wrapper(frame: types.FrameType) -> bool:
    """Whether the compiled function itself was offered, not one that it calls while it runs in eager."""
    files = (each.f_code.co_filename for each in frames_from(frame.f_back))
    return next((file for file in files if not file.endswith(COMPILE_BOUNDARY)), "").endswith(CALL_BOUNDARY)


def watch_skips(emit: Callable[[SkippedSeen], None]) -> Callable[[], None]:
    """Call `emit` for each function, outside torch, that the compiler leaves in eager. Returns what ends it.

    torch hands the reason and the frame to one function, which is replaced. A code object is skipped once and for all.
    """
    module = sys.modules.get("torch._dynamo.convert_frame")
    if not hasattr(module, "add_skip_reason"):
        return lambda: None
    patch = Patch(module, "add_skip_reason")

    @functools.wraps(patch.original)
    def add_skip_reason(reason: str, frame: Any) -> Any:
        if patch.active and not is_torchs(frame.f_code.co_filename):
            emit(_skipped(str(reason), frame))
        return patch.original(reason, frame)

    return patch.put(add_skip_reason)


def marked_disabled(value: Any) -> types.CodeType | None:
    """The code behind a function, or a module's forward, that torch.compiler.disable keeps from being compiled."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        value = value.forward
    if not getattr(value, "_torchdynamo_disable", False) or not getattr(value, "_torchdynamo_disable_recursive", True):
        return None
    code = getattr(getattr(value, "__wrapped__", None), "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _skipped(reason: str, frame: Any) -> SkippedSeen:
    torch, code, names = sys.modules["torch"], frame.f_code, dict(frame.f_locals)
    first = next((names.get(name) for name in code.co_varnames[:1]), None)
    return SkippedSeen(
        code=definition_of(code),
        reason=reason,
        owner=type(first).__qualname__ if isinstance(first, torch.nn.Module) else "",
        entry=_is_entry(sys._getframe(2)),
        tensors=any(isinstance(value, torch.Tensor | torch.nn.Module) for value in _values(names)),
    )


def _values(names: dict[str, Any]) -> list[Any]:
    """The values of a call, and what its lists and dictionaries hold."""
    found: list[Any] = []
    for value in islice(names.values(), _MOST_VALUES):
        if type(value) in (list, tuple, dict):
            found += islice(value.values() if isinstance(value, dict) else value, _MOST_VALUES)
        else:
            found.append(value)
    return found


def _is_entry(frame: types.FrameType | None) -> bool:
    """Whether nothing but torch stands between the compiled call and this frame."""
    files = takewhile(is_torchs, (each.f_code.co_filename for each in frames_from(frame)))
    return any(file.endswith(CALL_BOUNDARY) for file in files)
