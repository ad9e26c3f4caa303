"""Listens to Dynamo's structured trace and writes what it hears as events.

`hear` runs inside the compiler: it must never raise, never re-enter, and stay cheap. Whatever goes wrong here is
written down as a `lost` event, so that a partial recording says so; and at the end what was heard is held against
what torch itself has counted.
"""

from __future__ import annotations

import dis
import importlib.util
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynalyze.capture import guards
from dynalyze.capture.guards import dataset_of
from dynalyze.capture.hooks import after_fork
from dynalyze.capture.source_texts import HELD, files_of
from dynalyze.capture.torch_private import dynamo, trace
from dynalyze.capture.torch_private.dynamo import frame_entry
from dynalyze.capture.torch_private.trace import Skipped, marked_disabled
from dynalyze.capture.trace_records import TraceRecords, cut, hit_limit, refused_recompile
from dynalyze.capture.writer import EventWriter

if TYPE_CHECKING:
    from dynalyze.capture.callables_seen import Modules


Facts = dict[str, Any]
_HOW = "# Install depyf beside torch to have this as Python.\n"
DISABLED = "marked with torch.compiler.disable"
_MOST_SKIPS = 1000
_LONGEST_REASON = 500


@dataclass
class Heard:
    """How much of what torch counts by itself was heard, and where its counts stood when listening began."""

    since: trace.Counted
    graphs: int = 0
    breaks: int = 0
    ends: int = 0

    def missed(self) -> str:
        """What torch has counted and was not heard; "" where nothing is missing."""
        now = trace.counted()
        names = {"graphs": "graphs", "breaks": "graph breaks", "ends": "compiles"}
        told = []
        for field, name in names.items():
            # A program can set torch's counts back, so more heard than counted tells nothing.
            counted, heard = getattr(now, field) - getattr(self.since, field), getattr(self, field)
            if counted > heard:
                told.append(f"{counted} {name}, of which {heard} were heard")
        return f"torch counted {'; '.join(told)}" if told else ""


class Listener:
    """Hears torch's trace: the record's own facts, and those that only live objects have.

    `on_each_compile` is called in the thread that compiles, with the number of frames so far, whenever one starts.
    """

    def __init__(self, writer: EventWriter) -> None:
        self.compiled_frames = 0
        self.compile_seconds = 0.0
        self.on_each_compile: Callable[[int], None] | None = None
        self._heard = Heard(trace.counted())
        self._listening = False
        self._writer = writer
        self._busy = threading.local()
        self._records = TraceRecords(dynamo.interned_files())
        self._traced: set[tuple[str, str, int]] = set()
        self._files: set[str] = set()
        self.skips = Skips(self)
        self._modules: Modules | None = None  # It needs torch, which is not there yet.
        self._live: dict[str, Callable[[Facts, Any], Facts]] = {
            "compile_start": self._start,
            "graph": lambda event, payload: {"text": self._writer.write_text(str(payload or ""))},
            "break": _break,
            "error": _error,
            "recompile": _recompile,
        }
        after_fork(self._after_fork)

    def listen(self) -> Callable[[], None]:
        """Hear all that torch traces from here on; torch must be imported. Returns what ends it."""
        self._listening = True
        self._heard = Heard(trace.counted())
        return trace.listen(self.hear)

    def hear(self, metadata: Facts, payload: Any) -> None:
        """One record of the trace, called by the compiler."""
        if getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            self._hear(metadata, payload)
        except Exception as error:
            self._lose(error)
        finally:
            self._busy.now = False

    def check(self) -> None:
        """Tell what is missing, by torch's own counts. Called when the program has ended."""
        unheard = "torch was imported past the listener" if "torch" in sys.modules and not self._listening else ""
        missed = unheard or self._heard.missed()
        if missed:
            self.tell("lost", message=missed)

    def tell(self, event: str, **fields: Any) -> None:
        """Write an event that is not in the trace, under the same protection."""
        try:
            self._write({"event": event, **fields})
        except Exception as error:
            self._lose(error)

    def tell_bytecode(self, compile_id: str, code: types.CodeType) -> None:
        """Write down what Dynamo made of a frame. Called by the compiler: the rules of `hear` hold."""
        try:
            name = self._writer.write_text(as_python(code))
            self._writer.write("graph", id=compile_id, epoch=self.epoch, stage="transformed", text=name)
        except Exception as error:
            self._lose(error)

    def forget(self, *, compiling: bool) -> None:
        """Begin anew: what was heard so far is not to count. `compiling`: a frame is just beginning to compile."""
        self.compiled_frames = int(compiling)
        self.compile_seconds = 0.0
        self._heard = Heard(trace.counted())
        self._traced.clear()
        self._modules = None
        self._records.restart()

    @property
    def breaks(self) -> int:
        """How many graph breaks were heard."""
        return self._heard.breaks

    @property
    def epoch(self) -> int:
        """How many times torch._dynamo.reset() made compile ids begin again."""
        return self._records.epoch

    def _hear(self, metadata: Facts, payload: Any) -> None:
        event = self._records.read(metadata, payload)
        if event is None:
            return
        live = self._live.get(event["event"])
        if live is not None:
            event.update(live(event, payload))
        self._write(event)
        if event["event"] == "compile_end":
            self.compile_seconds += dynamo.compile_seconds(event["metrics"])
            for untold in _untold(event):
                self._write(untold)
            self._heard.ends += 1
        self._heard.breaks += event["event"] == "break"
        self._heard.graphs += event.get("stage") == "dynamo"
        if event["event"] == "break" or event.get("stage") == "dynamo":
            self._tell_traced(event)

    def _start(self, event: Facts, payload: Any) -> Facts:
        self.compiled_frames += 1
        if self.on_each_compile is not None:
            self.on_each_compile(self.compiled_frames)
        # The event's own stack lacks the callers nearest to the frame; the live one has them.
        return {"stack": dynamo.stack_above() or event["stack"], **self._owner(event)}

    def _owner(self, event: Facts) -> Facts:
        """The class of the module whose code is compiled, and which one it is: a decorated forward is a `wrapper`."""
        module = dynamo.compiled_module()
        if module is None:
            return {"owner": ""}
        if self._modules is None:
            from dynalyze.capture.callables_seen import Modules

            self._modules = Modules()
        code = f"{self.epoch} {str(event['id']).rpartition('/')[0]}"
        names = self._modules.met(code, module, dynamo.calling_frames())
        return {"owner": type(module).__qualname__, "module": id(module), "names": names}

    def _tell_traced(self, event: Facts) -> None:
        fresh = dict.fromkeys(each for each in dynamo.traced_functions() if each not in self._traced)
        if fresh:
            self._traced.update(fresh)
            self._write({"event": "traced", "id": event["id"], "epoch": event["epoch"], "functions": list(fresh)})

    def _write(self, event: Facts) -> None:
        """An event, and what is known of each source file that it is the first to name."""
        self._writer.write(**event)
        for file in files_of(event):
            if file not in self._files:
                self._files.add(file)
                self._writer.write("source", **HELD.facts(file, self._writer.write_text))

    def _lose(self, error: Exception) -> None:
        try:
            self._writer.write("lost", message=f"{type(error).__name__}: {error}"[:500])
        except Exception:
            return  # The disk itself refuses; the parent sees the file end.

    def _after_fork(self) -> None:
        self._busy = threading.local()
        self.compiled_frames = 0
        self._heard = Heard(trace.counted())
        self._records.restart()


def _break(event: Facts, payload: Any) -> Facts:
    error = dynamo.live_break()
    return {
        "message": cut(_message(error)),
        "type": getattr(error, "gb_type", None),
        "above": dynamo.stack_above(),
        "inside": dynamo.inner_stack(error),
    }


def _error(event: Facts, payload: Any) -> Facts:
    error = dynamo.live_error()
    behind = dynamo.break_behind(error)
    return {
        "message": cut(_message(behind or error)),
        "type": getattr(behind, "gb_type", None),
        "exception": type(error).__qualname__ if error is not None else "",
        "logged": bool(getattr(error, "logged", False)),
        "refused": dynamo.refuses_breaks(error),
        "above": dynamo.stack_above(),
        "inside": dynamo.summary_entries(getattr(error, "real_stack", None)),
    }


def _untold(end: Facts) -> Iterator[Facts]:
    """What torch has no record of where it refuses to compile a function again: what it raised, and why."""
    known = {name: end[name] for name in ("id", "epoch", "attempt")}
    refused = dynamo.raises_at_limit(dynamo.live_error()) if hit_limit(end["metrics"]) else None
    if refused is not None:
        yield {**known, "event": "error", "text": "", **_error(end, None), "refused": refused}
    reasons = refused_recompile(end["metrics"])
    if reasons:
        yield {**known, "event": "recompile", "text": cut(reasons), **_recompile(end, reasons)}


def _recompile(event: Facts, payload: Any) -> Facts:
    expected, actual = guards.guard_values(str(payload or ""))
    last_batch = dataset_of(str(payload or ""))
    return {"expected": expected, "actual": actual, "call": dynamo.outermost_call(), "last_batch_of": last_batch}


def _message(error: BaseException | None) -> str:
    if error is None:
        return ""
    message = getattr(error, "msg", None)
    return message if isinstance(message, str) else str(error)


def as_python(code: types.CodeType) -> str:
    """Readable text of a code object; always valid Python, comments at worst."""
    if importlib.util.find_spec("depyf") is None:
        return _HOW + _disassembled(code)
    try:
        depyf: Any = importlib.import_module("depyf")
        return f"{str(depyf.decompile(code)).rstrip()}\n"
    except Exception as error:  # Bytecode of a newer Python, say.
        reason = " ".join(str(error).split())[:200]
        return f"# depyf could not decompile this: {type(error).__name__}: {reason}\n{_disassembled(code)}"


def _disassembled(code: types.CodeType) -> str:
    lines = dis.Bytecode(code).dis().splitlines()
    return "".join(f"# {line}".rstrip() + "\n" for line in [f"{code.co_name}:", *lines])


class Skips:
    """Writes an event for a function that is left in eager; again, with the count, when that has doubled."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._counts: dict[tuple[Any, ...], int] = {}
        self._busy = threading.local()

    def watch(self) -> Callable[[], None]:
        """Listen to Dynamo, which has been imported; returns what ends it."""
        return trace.watch_skips(self.tell)

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
        if count == 1 and len(self._counts) >= _MOST_SKIPS:
            return
        self._counts[key] = count
        if count & (count - 1) == 0:
            self._listener.tell(
                "skipped", code=skipped.code, reason=reason, owner=skipped.owner, entry=skipped.entry,
                tensors=skipped.tensors, count=count,
            )  # fmt: skip
