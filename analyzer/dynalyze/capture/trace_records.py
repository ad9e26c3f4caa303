"""Records of torch's structured trace as events: what both a live handler and a TORCH_TRACE log can know.

A record is a small dict, `{"dynamo_start": {...}, "frame_id": 0, ...}`, with a text beside it. Standard library only,
and nothing of torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from dynalyze.capture.wire import INLINE_TEXT

Event = dict[str, Any]

CONTEXT_KEYS = frozenset(
    {"frame_id", "frame_compile_id", "compiled_autograd_id", "attempt", "rank", "has_payload", "stack", "thread",
     "subgraph_name", "timestamp", "pathname", "severity"}
)  # fmt: skip

# What torch calls the recompile limit: as a graph break, and as an exception that it raises for it (the first by 2.8).
LIMITS = ("Dynamo recompile limit exceeded", "Dynamo cache limit exceeded")
RAISED_LIMIT = "FailOnRecompileLimitHit"
_LIMIT_ERRORS = ("RecompileLimitExceeded", RAISED_LIMIT)
# How torch begins the traceback of an exception that it makes a graph break of.
_WARNED = "WON'T CONVERT "
_MOST_SOURCES = 20
_LONGEST_VALUE = 100
_LONGEST_REASON = 1000
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

# A cache that is not used; the last one cannot store what it has compiled.
_BYPASSES = {
    "fx_graph_cache_bypass": "fx_graph",
    "aotautograd_cache_bypass": "autograd",
    "aotautograd_cache_pickle_failure": "autograd",
}

# Records whose text is the program at one stage on its way down to kernels. Torch 2.8 has another name for post-grad.
_STAGES = {
    "dynamo_output_graph": "dynamo",
    "aot_joint_graph": "joint",
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
    "aot_inference_graph": "inference",
    "after_post_grad_graph": "post_grad",
    "inductor_post_grad_graph": "post_grad",
    "inductor_output_code": "output_code",
    "fx_graph_runnable": "runnable",
    # With provenance tracking on: what the kernels of the output code before it came from, as JSON.
    "inductor_provenance_tracking_node_mappings": "kernel_nodes",
    "inductor_provenance_tracking_kernel_stack_traces": "kernel_stacks",
}


class TraceRecords:
    """Reads the records of one process, in their order. Unknown ones are no events."""

    WITH_REASON = frozenset(_BYPASSES)

    def __init__(self, files: dict[int, str] | None = None) -> None:
        # How many times torch._dynamo.reset() made compile ids begin again.
        self.epoch = 0
        # File names by the numbers that records use for them.
        self.files = files if files is not None else {}
        self._seen: set[str] = set()
        self._readers: dict[str, Callable[[str, Event, str], Event | None]] = {
            "dynamo_start": self._start,
            "compilation_metrics": _metrics,
            "bwd_compilation_metrics": _metrics,
            "dynamo_graph_break_reason": _break,
            "dynamo_error": lambda name, metadata, text: {"event": "error", "text": cut(text, keep_end=True)},
            "recompile_reasons": lambda name, metadata, text: {"event": "recompile", "text": cut(text)},
            "symbolic_shape_specialization": self._specialized,
            **dict.fromkeys(_BYPASSES, _bypass),
            **dict.fromkeys(_STAGES, _graph),
        }

    @property
    def kinds(self) -> frozenset[str]:
        """Names of the records, or of their artifacts, that `read` needs; a reader of logs skips all others."""
        return frozenset(("str", *self._readers))

    def read(self, metadata: Event, payload: Any) -> Event | None:
        """The event that a record stands for; None where it is of no concern."""
        for name, content in metadata.items():
            if name in CONTEXT_KEYS:
                continue
            if name == "str":
                self.files[content[1]] = content[0]
                return None
            reader = self._readers.get(content.get("name", "") if name == "artifact" else name)
            event = reader(name, metadata, payload or "") if reader is not None else None
            return None if event is None else self._tagged(event, metadata)
        return None

    def restart(self) -> None:
        """Forget the compile ids seen: a forked process counts its own."""
        self.epoch = 0
        self._seen.clear()

    def _start(self, name: str, metadata: Event, text: str) -> Event:
        compile_id = compile_id_of(metadata)
        if compile_id in self._seen:
            self.epoch += 1
            self._seen.clear()
        self._seen.add(compile_id)
        stack = self._stack(metadata["dynamo_start"].get("stack"))
        return {"event": "compile_start", "code": stack[-1] if stack else None, "stack": stack[:-1]}

    def _specialized(self, name: str, metadata: Event, text: str) -> Event:
        told = metadata[name]
        return {
            "event": "specialized",
            "sources": [cut(str(source)) for source in told.get("sources") or ()][:_MOST_SOURCES],
            "value": str(told.get("value"))[:_LONGEST_VALUE],
            "stack": self._stack(told.get("user_stack")),
        }

    def _stack(self, frames: Any) -> list[Event]:
        return [
            {"file": self._file(f.get("filename")), "line": f.get("line") or 0, "name": f.get("name") or ""}
            for f in frames or ()
        ]

    def _tagged(self, event: Event, metadata: Event) -> Event:
        event.update(id=compile_id_of(metadata), epoch=self.epoch, attempt=metadata.get("attempt") or 0)
        if "rank" in metadata:
            event["rank"] = metadata["rank"]
        return event

    def _file(self, reference: Any) -> str:
        return self.files.get(reference, "") if isinstance(reference, int) else str(reference or "")


def compile_id_of(metadata: Event) -> str:
    """Dynamo's compile id as it prints it: "0/1", with "!2/" before it under compiled autograd."""
    autograd = metadata.get("compiled_autograd_id")
    frame, version = metadata.get("frame_id"), metadata.get("frame_compile_id")
    own = f"{frame}/{version}" if frame is not None else ""
    return f"!{autograd}/{own}" if autograd is not None else own


def hit_limit(metrics: Mapping[str, Any]) -> bool:
    """Whether a compile ended before it began, because the function had been compiled too often already."""
    return metrics.get("fail_type") in _LIMIT_ERRORS or str(metrics.get("fail_reason") or "").startswith(LIMITS)


def refused_recompile(metrics: Mapping[str, Any]) -> str:
    """The failed guards of a recompile that torch refused, as config.error_on_recompile asks; "" for any other end."""
    if metrics.get("fail_type") != "RecompileError":
        return ""
    told = str(metrics.get("fail_reason") or "").partition("guard failure(s):\n")[2]
    return "\n".join(line.strip().removeprefix("- ") for line in told.splitlines())


def cut(text: str, *, keep_end: bool = False) -> str:
    """A text that fits an event line, its beginning or its end; how much was cut is said."""
    if len(text) <= INLINE_TEXT:
        return text
    note = f"... {len(text) - INLINE_TEXT} characters cut"
    return f"{note}\n{text[-INLINE_TEXT:]}" if keep_end else f"{text[:INLINE_TEXT]}\n{note}"


def _break(name: str, metadata: Event, text: str) -> Event | None:
    """A graph break; None for the exception of a backend that torch makes one of, and then logs as one."""
    return None if text.startswith(_WARNED) else {"event": "break", "text": cut(_plain(text))}


def _graph(name: str, metadata: Event, text: str) -> Event:
    """One stage of a graph; its text is too long for an event, so whoever reads the record keeps it elsewhere."""
    known = metadata["artifact"]["name"] if name == "artifact" else name
    return {"event": "graph", "stage": _STAGES[known]}


def _bypass(name: str, metadata: Event, text: str) -> Event:
    known = metadata["artifact"]["name"]
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):  # Cut short, in a log.
        told = {}
    told = told if isinstance(told, dict) else {}
    reason = told.get("cache_bypass_reason") or told.get("error") or ""
    stored = "Unable to serialize: " if known.endswith("pickle_failure") else ""
    said = f"{stored}{reason}"[:_LONGEST_REASON].encode(errors="replace").decode()
    return {"event": "cache_bypass", "cache": _BYPASSES[known], "reason": said}


def _metrics(name: str, metadata: Event, text: str) -> Event:
    metrics = metadata[name]
    fields = {key: metrics[key] for key in _METRIC_FIELDS if metrics.get(key) is not None}
    if metrics.get("fail_reason"):
        fields["fail_reason"] = cut(str(metrics["fail_reason"]))
    return {"event": "compile_end", "backward": name.startswith("bwd"), "metrics": fields}


def _plain(payload: str) -> str:
    """The payload ends with a traceback through the compiler itself, of no use to the owner of a model.

    Where a frame is skipped late, the cause stands in that traceback alone.
    """
    head, found, _ = payload.partition("\nTraceback (most recent call last):")
    return head if found and head.startswith("Graph break in user code") else payload
