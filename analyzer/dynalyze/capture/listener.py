"""Listens to Dynamo's structured trace and writes what it hears as events.

`emit` runs inside the compiler: it must never raise, never re-enter, and stay cheap. Whatever goes wrong here is
written down as a `lost` event, so that a partial recording says so.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from dynalyze.capture import adapter, guard_values
from dynalyze.capture.wire import INLINE_TEXT
from dynalyze.capture.writer import EventWriter

_CONTEXT_KEYS = frozenset(
    {"frame_id", "frame_compile_id", "compiled_autograd_id", "attempt", "rank", "has_payload", "stack", "thread",
     "subgraph_name"}
)  # fmt: skip

_METRIC_FIELDS = (
    "co_name", "co_filename", "co_firstlineno", "cache_size", "accumulated_cache_size", "guard_count",
    "graph_op_count", "graph_node_count", "graph_input_count", "fail_type", "fail_user_frame_filename",
    "fail_user_frame_lineno", "has_guarded_code", "is_forward", "is_runtime", "start_time_us", "duration_us",
    "dynamo_cumulative_compile_time_us", "aot_autograd_cumulative_compile_time_us",
    "inductor_cumulative_compile_time_us", "inductor_code_gen_cumulative_compile_time_us",
    "triton_compile_time_us", "backward_cumulative_compile_time_us", "pre_grad_pass_time_us",
    "post_grad_pass_time_us", "joint_graph_pass_time_us", "dynamo_time_before_restart_s",
    "entire_frame_compile_time_s", "backend_compile_time_s", "inductor_compile_time_s", "code_gen_time_s",
    "inductor_fx_local_cache_hit_count", "inductor_fx_local_cache_miss_count",
    "inductor_fx_remote_cache_hit_count", "inductor_fx_remote_cache_miss_count",
    "aotautograd_local_cache_hit_count", "aotautograd_local_cache_miss_count",
    "aotautograd_remote_cache_hit_count", "aotautograd_remote_cache_miss_count",
    "cudagraph_skip_reason", "guard_latency_us", "structured_logging_overhead_us",
)  # fmt: skip


class Listener(logging.Handler):
    """A logging handler for torch's trace logger.

    `on_compile` is called once, in the thread that compiles, when the first frame of this process starts.
    """

    def __init__(self, writer: EventWriter, on_compile: Callable[[], None] | None = None) -> None:
        super().__init__(logging.DEBUG)
        self.compiled_frames = 0
        self._writer = writer
        self._on_compile = on_compile
        self._busy = threading.local()
        self._epoch = 0
        self._seen: set[str] = set()
        self._files: dict[int, str] = {}
        self._traced: set[tuple[str, str, int]] = set()
        self._by_name: dict[str, Callable[[str, dict[str, Any], Any], None]] = {
            "dynamo_start": self._start,
            "compilation_metrics": self._metrics,
            "bwd_compilation_metrics": self._metrics,
            "dynamo_output_graph": self._graph,
            "dynamo_graph_break_reason": self._break,
            "dynamo_error": self._error,
            "recompile_reasons": self._recompile,
        }
        os.register_at_fork(after_in_child=self._after_fork)

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            self._hear(getattr(record, "metadata", None) or {}, getattr(record, "payload", None))
        except Exception as error:
            self._lose(error)
        finally:
            self._busy.now = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing: `emit` catches all, and logging's own report would print into the user's program."""

    def tell(self, event: str, **fields: Any) -> None:
        """Write an event that is not in the trace, under the same protection."""
        try:
            self._writer.write(event, **fields)
        except Exception as error:
            self._lose(error)

    @property
    def epoch(self) -> int:
        """How many times torch._dynamo.reset() made compile ids begin again."""
        return self._epoch

    def _hear(self, metadata: dict[str, Any], payload: Any) -> None:
        for name, content in metadata.items():
            if name in _CONTEXT_KEYS:
                continue
            if name == "str":
                self._files[content[1]] = content[0]
                return
            if name == "artifact":
                name = content.get("name", "")
            act = self._by_name.get(name)
            if act is not None:
                act(name, metadata, payload)
            return

    def _start(self, name: str, metadata: dict[str, Any], payload: Any) -> None:
        compile_id = _compile_id(metadata)
        if compile_id in self._seen:
            self._epoch += 1
            self._seen.clear()
        self._seen.add(compile_id)
        self.compiled_frames += 1
        if self.compiled_frames == 1 and self._on_compile is not None:
            self._on_compile()
        stack = [
            adapter.frame_entry(self._file(f.get("filename")), f.get("line"), f.get("name", ""), None, None)
            for f in metadata["dynamo_start"].get("stack", ())
        ]
        # The event's own stack lacks the callers nearest to the frame; the live one has them.
        above = adapter.stack_above() or stack[:-1]
        self._write(
            "compile_start", metadata, code=stack[-1] if stack else None, stack=above, owner=adapter.compiled_owner()
        )

    def _metrics(self, name: str, metadata: dict[str, Any], payload: Any) -> None:
        metrics = metadata[name]
        fields = {key: metrics[key] for key in _METRIC_FIELDS if metrics.get(key) is not None}
        reason = metrics.get("fail_reason")
        if reason:
            fields["fail_reason"] = _cut(str(reason))
        self._write("compile_end", metadata, backward=name.startswith("bwd"), metrics=fields)

    def _graph(self, name: str, metadata: dict[str, Any], payload: Any) -> None:
        self._write("graph", metadata, text=self._writer.write_text(str(payload or "")))
        self._tell_traced(metadata)

    def _break(self, name: str, metadata: dict[str, Any], payload: Any) -> None:
        error = adapter.live_break()
        self._write(
            "break",
            metadata,
            text=_cut(_without_torch_traceback(str(payload or ""))),
            message=_cut(_message(error)),
            type=getattr(error, "gb_type", None),
            above=adapter.stack_above(),
            inside=adapter.inner_stack(error),
        )
        self._tell_traced(metadata)

    def _error(self, name: str, metadata: dict[str, Any], payload: Any) -> None:
        error = adapter.live_error()
        behind = adapter.break_behind(error)
        self._write(
            "error",
            metadata,
            text=_cut(str(payload or "")),
            message=_cut(_message(behind or error)),
            type=getattr(behind, "gb_type", None),
            exception=type(error).__qualname__ if error is not None else "",
            logged=bool(getattr(error, "logged", False)),
            refused=adapter.refuses_breaks(),
            above=adapter.stack_above(),
            inside=adapter.summary_entries(getattr(error, "real_stack", None)),
        )

    def _recompile(self, name: str, metadata: dict[str, Any], payload: Any) -> None:
        text = str(payload or "")
        expected, actual = guard_values.read(text)
        self._write(
            "recompile", metadata, text=_cut(text), expected=expected, actual=actual, call=adapter.outermost_call()
        )

    def _tell_traced(self, metadata: dict[str, Any]) -> None:
        fresh = dict.fromkeys(each for each in adapter.traced_functions() if each not in self._traced)
        if fresh:
            self._traced.update(fresh)
            self._write("traced", metadata, functions=list(fresh))

    def _write(self, event: str, metadata: dict[str, Any], **fields: Any) -> None:
        rank = {"rank": metadata["rank"]} if "rank" in metadata else {}
        self._writer.write(
            event, id=_compile_id(metadata), epoch=self._epoch, attempt=metadata.get("attempt", 0), **rank, **fields
        )

    def _file(self, reference: Any) -> str:
        return self._files.get(reference, "") if isinstance(reference, int) else str(reference or "")

    def _lose(self, error: Exception) -> None:
        try:
            self._writer.write("lost", message=f"{type(error).__name__}: {error}"[:500])
        except Exception:
            return  # The disk itself refuses; the parent sees the file end.

    def _after_fork(self) -> None:
        # Locks may be held by threads that the fork did not copy.
        self.createLock()
        self._busy = threading.local()
        self._epoch, self.compiled_frames = 0, 0
        self._seen.clear()


def _compile_id(metadata: dict[str, Any]) -> str:
    """Dynamo's compile id as it prints it: "0/1", with "!2/" before it under compiled autograd."""
    autograd = metadata.get("compiled_autograd_id")
    frame, version = metadata.get("frame_id"), metadata.get("frame_compile_id")
    own = f"{frame}/{version}" if frame is not None else ""
    return f"!{autograd}/{own}" if autograd is not None else own


def _message(error: BaseException | None) -> str:
    if error is None:
        return ""
    message = getattr(error, "msg", None)
    return message if isinstance(message, str) else str(error)


def _without_torch_traceback(payload: str) -> str:
    """The payload ends with a traceback through the compiler itself, of no use to the owner of a model."""
    return payload.partition("\nTraceback (most recent call last):")[0]


def _cut(text: str) -> str:
    return text if len(text) <= INLINE_TEXT else text[:INLINE_TEXT] + f"\n... {len(text) - INLINE_TEXT} characters cut"
