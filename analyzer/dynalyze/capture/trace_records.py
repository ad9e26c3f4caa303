"""Records of torch's structured trace as events: what both a live handler and a TORCH_TRACE log can know.

A record is a small dict, `{"dynamo_start": {...}, "frame_id": 0, ...}`, with a text beside it. The keys that torch's
compile caches were asked for are taken apart into their components as torch logs them. Standard library only, and
nothing of torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

from dynalyze.capture.events import (
    BreakSeen,
    CacheBypassed,
    CacheLooked,
    CacheVariables,
    CompileEnded,
    CompilerEvent,
    CompileStarted,
    ErrorSeen,
    Event,
    Frame,
    GraphSeen,
    Metrics,
    RecompileSeen,
    SpecializedSeen,
)
from dynalyze.capture.torch_private import cache_keys
from dynalyze.capture.wire import INLINE_TEXT

Metadata = Mapping[str, Any]

CONTEXT_KEYS = frozenset(
    {"frame_id", "frame_compile_id", "compiled_autograd_id", "attempt", "rank", "has_payload", "stack", "thread",
     "subgraph_name", "timestamp", "pathname", "severity"}
)  # fmt: skip

# The beginning or the end of a step of a compile, for a trace viewer.
STEP = "chromium_event"

# What torch calls the recompile limit: as a graph break, and as an exception that it raises for it (the first by 2.8).
LIMITS = ("Dynamo recompile limit exceeded", "Dynamo cache limit exceeded")
RAISED_LIMIT = "FailOnRecompileLimitHit"
_LIMIT_ERRORS = ("RecompileLimitExceeded", RAISED_LIMIT)
# How torch begins the traceback of an exception that it makes a graph break of.
_WARNED = "WON'T CONVERT "
_ADDRESS = re.compile(r",? at 0x[0-9a-fA-F]+")
_MOST_SOURCES = 20
_LONGEST_VALUE = 100
_LONGEST_REASON = 1000

# A cache that is not used; the last one cannot store what it has compiled.
BYPASSES = {
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

CACHE_SETTINGS = ("inductor_config", "inductor_config_comms", "autograd_config", "custom_backend_codegen_configs")
"""Components that are hundreds of settings each, alike in almost all keys of a process."""

# Records of torch's caches: which cache, and what became of the look-up.
CACHE_RECORDS = {
    "fx_graph_cache_hit": ("fx_graph", "hit"),
    "fx_graph_cache_miss": ("fx_graph", "miss"),
    "aotautograd_cache_hit": ("autograd", "hit"),
    "aotautograd_cache_miss": ("autograd", "miss"),
    "get_local_code_state": ("pgo", "hit"),
    "put_local_code_state": ("pgo", "stored"),
}
_LINE = re.compile(r"\[(\w+)\] (\w+)(?:\[(.*?)\])?: (.*)", re.DOTALL)
# What almost every input has; there are thousands of inputs.
_PLAIN = re.compile(r", (?:storage_offset=0|storage_bytes=None|(?:is|dense|has)_\w+=(?:False|None)|\w+=None)(?=[,)])")
_DIGEST, _LONGEST = 16, 400


class TraceRecords:
    """Reads the records of one process, in their order. Unknown ones are no events.

    What stands in a record is passed on as it is: a log may hold anything in the place of a number.
    """

    def __init__(self, files: dict[int, str] | None = None) -> None:
        # How many times torch._dynamo.reset() made compile ids begin again.
        self.epoch = 0
        # File names by the numbers that records use for them.
        self.files = files if files is not None else {}
        self._seen: set[str] = set()
        # Of each kind of record of concern; each gets the record's name, what it holds under that, and its text.
        self.readers: dict[str, Callable[[str, Any, str], CompilerEvent | None]] = {
            "dynamo_start": self._start,
            "compilation_metrics": _metrics,
            "bwd_compilation_metrics": _metrics,
            "dynamo_graph_break_reason": _break,
            "dynamo_error": lambda name, content, text: ErrorSeen(text=cut(text, keep_end=True)),
            "recompile_reasons": lambda name, content, text: RecompileSeen(text=cut(text)),
            "symbolic_shape_specialization": self._specialized,
            **dict.fromkeys(BYPASSES, _bypass),
            # Its text is too long for an event: whoever reads the record keeps it elsewhere.
            **dict.fromkeys(_STAGES, lambda name, content, text: GraphSeen(stage=_STAGES[name])),
        }

    def read(self, metadata: Metadata, payload: Any) -> CompilerEvent | None:
        """The event that a record stands for; None for a record that nobody reads."""
        for name, content in metadata.items():
            if name in CONTEXT_KEYS:
                continue
            if name == "str":
                self.files[content[1]] = content[0]
                return None
            known = content.get("name", "") if name == "artifact" else name
            reader = self.readers.get(known)
            event = reader(known, content, payload or "") if reader is not None else None
            if event is None:
                return None
            event.id = compile_id_of(metadata)
            event.attempt, event.rank = metadata.get("attempt") or 0, metadata.get("rank")
            if isinstance(event, CompileStarted):
                if event.id in self._seen:
                    self.epoch += 1
                    self._seen.clear()
                self._seen.add(event.id)
            event.epoch = self.epoch
            return event
        return None

    def restart(self) -> None:
        """Forget the compile ids seen: a forked process counts its own."""
        self.epoch = 0
        self._seen.clear()

    def _start(self, name: str, content: Any, text: str) -> CompileStarted:
        stack = self._stack(content.get("stack"))
        return CompileStarted(code=stack[-1] if stack else None, stack=stack[:-1])

    def _specialized(self, name: str, symbol: Any, text: str) -> SpecializedSeen:
        return SpecializedSeen(
            sources=[cut(str(source)) for source in symbol.get("sources") or ()][:_MOST_SOURCES],
            value=str(symbol.get("value"))[:_LONGEST_VALUE],
            stack=self._stack(symbol.get("user_stack")),
        )

    def _stack(self, frames: Any) -> list[Frame]:
        found = []
        for frame in frames or ():
            file = frame.get("filename")
            file = self.files.get(file, "") if isinstance(file, int) else str(file or "")
            found.append(Frame(file, frame.get("line") or 0, frame.get("name") or ""))
        return found


def compile_id_of(metadata: Metadata) -> str:
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
    reasons = str(metrics.get("fail_reason") or "").partition("guard failure(s):\n")[2]
    return "\n".join(line.strip().removeprefix("- ") for line in reasons.splitlines())


def without_addresses(text: str) -> str:
    """`<function f>` for `<function f at 0x7f8eea53d4e0>`: addresses differ in each run, and name nothing."""
    return _ADDRESS.sub("", text)


def cut(text: str, *, keep_end: bool = False) -> str:
    """A text that fits an event line, its beginning or its end; how much was cut is said."""
    if len(text) <= INLINE_TEXT:
        return text
    note = f"... {len(text) - INLINE_TEXT} characters cut"
    return f"{note}\n{text[-INLINE_TEXT:]}" if keep_end else f"{text[:INLINE_TEXT]}\n{note}"


def _break(name: str, content: Any, text: str) -> BreakSeen | None:
    """None for the exception of a backend that torch makes a graph break of, and then logs as one."""
    if text.startswith(_WARNED):
        return None
    # It ends with a traceback through the compiler itself, of no use to the owner of a model. Where a frame is skipped
    # late, the cause stands in that traceback alone.
    head, found, _ = text.partition("\nTraceback (most recent call last):")
    return BreakSeen(text=cut(head if found and head.startswith("Graph break in user code") else text))


def _bypass(name: str, content: Any, text: str) -> CacheBypassed:
    try:
        details = json.loads(text)
    except (ValueError, RecursionError):  # Cut short, in a log.
        details = {}
    details = details if isinstance(details, dict) else {}
    reason = details.get("cache_bypass_reason") or details.get("error") or ""
    stored = "Unable to serialize: " if name.endswith("pickle_failure") else ""
    shown = without_addresses(f"{stored}{reason}")[:_LONGEST_REASON].encode(errors="replace").decode()
    return CacheBypassed(cache=BYPASSES[name], reason=shown)


def _metrics(name: str, metrics: Any, text: str) -> CompileEnded:
    known = {key: metrics[key] for key in Metrics.__annotations__ if metrics.get(key) is not None}
    if reason := metrics.get("fail_reason"):
        known["fail_reason"] = cut(str(reason))
    return CompileEnded(backward=name.startswith("bwd"), metrics=cast(Metrics, known))


class CacheKeys:
    """Reads the records of the caches. Settings go to a text of their own, once."""

    def __init__(self, write_text: Callable[[str], str], emit: Callable[[Event], None] | None = None) -> None:
        """`emit` takes what is known of the variables that this process has set; a log knows nothing of these."""
        self.readers = dict.fromkeys(CACHE_RECORDS, self._read)
        self._write_text = write_text
        self._emit = emit
        self._blocks: dict[str, str] = {}
        self._told = False

    def _read(self, name: str, content: Any, text: str) -> CacheLooked:
        cache, state = CACHE_RECORDS[name]
        if cache == "pgo":
            return CacheLooked(cache=cache, state=state)
        try:
            found = json.loads(text)
        except ValueError:  # A log whose texts were cut short still says what was asked, and how it ended.
            found = {}
        lines = [str(line) for line in found.get("components") or ()]
        event = CacheLooked(
            cache=cache, state=state, digest=str(found.get("key") or ""),
            detail=str(found.get("cache_status_detailed") or ""), taken=_seconds(found, "time_taken_ns", 1e9),
            saved=_seconds(found, "time_saved_ns", 1e9) or _seconds(found, "time_saved_ms", 1e3),
        )  # fmt: skip
        self._take_apart(event, [*lines, *cache_keys.more_lines(lines)])
        if self._emit is not None and not self._told:
            self._told = True
            self._emit(CacheVariables(cache_keys.variables_of_settings()))
        return event

    def _take_apart(self, event: CacheLooked, lines: list[str]) -> None:
        settings: dict[str, dict[str, str]] = {}
        for head, item, digest, shown in filter(None, map(_component, lines)):
            if head not in CACHE_SETTINGS:
                event.components.append((head if item is None else f"{head}[{item}]", digest, shown))
            elif item is not None:  # Else it is the bytes of them all.
                settings.setdefault(head, {})[item] = shown
        for head, values in settings.items():
            block = json.dumps({head: values})
            if block not in self._blocks:
                self._blocks[block] = self._write_text(block)
            event.settings.append(self._blocks[block])


@lru_cache(maxsize=2048)
def _component(line: str) -> tuple[str, str | None, str, str] | None:
    """What a line of a key says: head, item, digest and the value as it is shown. Most stand in every key alike."""
    if (parts := _LINE.match(line)) is None:
        return None
    digest, head, item, value = parts.groups()
    shown = without_addresses(value)
    if head in CACHE_SETTINGS:
        return head, item, "", shown[:_LONGEST]
    shown = digest if head == "torch_version" else cut(shown)  # A digest of its source, as bytes.
    return head, item, digest[:_DIGEST], _PLAIN.sub("", shown) if head == "example_inputs" else shown


def _seconds(found: dict[str, Any], name: str, parts: float) -> float | None:
    value = found.get(name)
    return round(value / parts, 6) if isinstance(value, int | float) and value >= 0 else None
