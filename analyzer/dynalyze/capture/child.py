"""The child: runs the target under the listener, then compiles by itself where the target compiled nothing."""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from dynalyze.capture import (
    environment,
    events,
    objects,
    overlay,
    program,
    shadows,
    side_effects,
    transforms,
)  # fmt: skip
from dynalyze.capture.attach import attach, forget_compiles, lead_descendants
from dynalyze.capture.compile_calls import CompileCalls
from dynalyze.capture.compile_selection import CompileSelection
from dynalyze.capture.compiling import backend_of, backward, check, compiled
from dynalyze.capture.containment import Containment
from dynalyze.capture.events import Ending
from dynalyze.capture.hooks import after_import
from dynalyze.capture.inputs import Inputs, Misuse, calls_from
from dynalyze.capture.inspecting.module_watch import Inspection
from dynalyze.capture.inspecting.seeds import SeedWatch
from dynalyze.capture.inspecting.settings import left_behind, names_of_modules
from dynalyze.capture.installed import file_of
from dynalyze.capture.listener import Listener
from dynalyze.capture.program import SOFT_STOP_SIGNAL, SoftStop, stop_softly
from dynalyze.capture.settings import CompileOptions, Phase
from dynalyze.capture.side_effects import EffectsWatch, SideEffect
from dynalyze.capture.torch_private import dynamo, runtime
from dynalyze.capture.wire import REQUEST_FILE
from dynalyze.capture.writer import EventWriter, has_event

_STATUS_MISUSE = 2
_STATUS_INTERRUPTED = 130
# What is kept of a program's calls where no benchmark needs them: enough to make one of each module again.
_FEW_CALLS, _FEW_BYTES = 16, 256 << 20
_LONGEST_ERROR = 1000
# Modes in which dynalyze makes the callable and its calls: each process that measures makes them anew.
_REBUILT = ("object", "library")
_TAKES_GRADIENTS = re.compile(r"\b(?:backward|autograd|enable_grad|requires_grad_?)\b")


def main(run: Path) -> int:
    """Run what `run/request.json` asks for; returns the exit status of the target."""
    request = json.loads((run / REQUEST_FILE).read_text(encoding="utf-8"))
    sys.argv = [request["spec"], *request["arguments"]]
    session = TargetSession(run, request)
    overlay.put_over(request.get("changes", {}))
    if settings := request.get("settings"):
        after_import("torch._dynamo", lambda _: runtime.run_settings(settings))
    session.listen()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ending = session.run()
        if (reason := environment.torch_missing()) and not session.others_compiled():
            raise Misuse(reason)
    except SoftStop:  # Outside of the program's own code: it has emitted why.
        return _STATUS_MISUSE
    except KeyboardInterrupt:  # In our own code: its traceback would be of no use.
        return _STATUS_INTERRUPTED
    except Exception as error:
        if not (reason := str(error) if isinstance(error, Misuse) else environment.torch_refusal(error)):
            raise
        session.emit(events.Misused(reason))
        return _STATUS_MISUSE
    session.check()
    session.emit(events.TargetEnded(**vars(ending)))
    return ending.exit_status or 0


class TargetSession:
    """One run of a target in this process."""

    def __init__(self, run: Path, request: dict[str, Any]) -> None:
        self._folder = run
        self._request = request
        self._options = CompileOptions(**request["compile"])
        self._bundles = bool(request.get("bundle")) and request["mode"] not in _REBUILT
        self._effects: EffectsWatch | None = None
        self._writer = EventWriter(run, main=True)
        self._listener = Listener(self._writer)
        self._compile_calls: CompileCalls | None = None
        self._selection = CompileSelection(request.get("chosen", []))
        self._transforming = CompileSelection([])
        self._in_place: Any = None
        self._recorder: Any = None
        self._compiled_recording: Any = None
        self._in_turns: tuple[Any, Any, bool] | None = None
        self._began = time.monotonic()
        self._first_compile = 0.0
        """Seconds after the start."""
        self._seeds = SeedWatch() if request.get("compared") else None
        self._compiling_ourselves = False
        self._program_compiles_itself = False
        self._refused = False
        self.emit, self.check = self._listener.emit, self._listener.check
        self._inspection = Inspection(self.emit, at_once=True)
        self._listener.on_each_compile = self._compiling

    def listen(self) -> None:
        """Attach everything before the target's first line runs."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # It is a pipe to us: a kill must not swallow its lines.
        self._writer.open()
        if self._request.get("refuses"):
            self._effects = Containment(self._folder, tell=self._tell_effect).watch
        else:
            self._effects = side_effects.watch([self._folder], refuses=False, tell=self._tell_effect)
        lead_descendants(self._folder)
        attach(self._listener, self._folder, self._torch_loaded)
        if SOFT_STOP_SIGNAL is not None:
            signal.signal(SOFT_STOP_SIGNAL, stop_softly)

    def _tell_effect(self, effect: SideEffect) -> None:
        self.emit(events.OutsideEffectSeen(**vars(effect)))

    def run(self) -> Ending:
        """Run the target to its end, then whatever dynalyze compiles itself."""
        if self._options.given:
            check(self._options)
        if self._request["mode"] == "object":
            return self._run_object()
        if self._request["mode"] == "library":
            return self._run_library()
        if self._in_place is not None:  # Checking our own options imported torch already.
            self._in_place.start_clock()
        self._find_transforms()
        chosen = [*self._selection.names, *self._transforming.names], self._resolve
        if self._request["mode"] == "module":
            ending, names = program.run_module(self._request["module"], self._request["arguments"], *chosen)
        else:
            ending, names = program.run_script(self._request["path"], self._request["arguments"], *chosen)
        shadows.put_back()
        left, names_left = {}, {}
        if self._seeds is not None and "torch" in sys.modules:
            left, names_left = left_behind() | self._seeds.set_by_program(sys.modules), names_of_modules()
        self.emit(events.ProgramEnded(**vars(ending), left=left, names=names_left))
        if self._in_place is not None:
            self._in_place.emit_seen()
        if self._refused or (ending.exit_status == 130 and ending.exception == "KeyboardInterrupt"):
            return ending
        ending = self._after_program(ending, names)
        if self._in_turns is not None:
            self._time_in_turns(*self._in_turns)
        return ending

    def _resolve(self) -> None:
        self._selection.resolve()
        self._transforming.resolve()

    def _find_transforms(self) -> None:
        """The functions of a script that are compiled in the place of the model that they call through torch.func."""
        path = self._request.get("path")
        if self._selection or not path or not self._request.get("in_place", True) or path.endswith(overlay.NOTEBOOK):
            return
        with contextlib.suppress(OSError, ValueError):
            self._transforming = CompileSelection(transforms.names_in(overlay.read(path)))
            if self._in_place is not None:
                self._transforming.stand_in = self._in_place.stand_in_for_tensors

    def _after_program(self, ending: Ending, names: dict[str, Any]) -> Ending:
        self._listener.end_look()
        self._inspection.look_again(ended=True)
        if not self._listener.compiled_frames:
            program.join_threads()
        if self._in_place is not None:
            self._in_place.remove()
        has_examples = callable(names.get("model")) and names.get("example_inputs") is not None
        examples = ending.exit_status == 0 and has_examples
        if self._bundles and self._write_bundle(examples) and not self._request.get("in_place", True):
            return ending
        self._emit_trees()
        self._make_failed_call_again()
        if ending.exit_status == 0 and self._selection.missing and not self._program_compiles_itself:
            # What `--compile` named was never there: the user's mistake.
            names_called = dict.fromkeys(entry.name for entry in self._in_place.seen.entries() if entry.name)
            there = f"; it called {', '.join(list(names_called)[:8])}" if names_called else ""
            self.emit(events.Misused(f"--compile {self._selection.missing[0]}: the program has no such thing{there}"))
        if self._listener.compiled_frames or self.others_compiled():
            return ending
        called = self._in_place.seen.ids if self._in_place is not None else set()
        wrapped = self._compile_calls.wrapped_by_program(called) if self._compile_calls else []
        if wrapped or environment.compile_disabled():
            self.emit(environment.nothing_compiled(wrapped))
        elif examples:
            return self._run_calls(names["model"], lambda target: calls_from(names["example_inputs"]))
        else:
            self.emit(events.Definitions(self._request["spec"], objects.definitions(names), "model" in names))
        return ending

    def _emit_trees(self) -> None:
        """The parts of each module that broke: which of them no break reaches is for the parent to find out."""
        if self._listener.breaks and self._compile_calls is not None:
            self._compile_calls.emit_trees_of_functions()
        if not self._listener.breaks or self._in_place is None:
            return
        from dynalyze.capture.module_tree import module_tree

        for name, module, call in self._in_place.compiled_modules():
            repeatable = call is not None and self._effects is not None and not self._effects.holds_open
            again = call.kept.making(module) if call is not None and call.kept is not None and repeatable else None
            with side_effects.refused([self._folder]):
                self.emit(module_tree(name, module, again))

    def _make_failed_call_again(self) -> None:
        """Where a compile that failed ended the program: whether the same call raises in eager too. Without effects."""
        error, program.compiler_raised = program.compiler_raised, None
        modes = self._listener.modes_at_error
        if error is None or modes is None or self._effects is None or self._effects.holds_open:
            return
        import torch

        from dynalyze.capture.bench.state_snapshot import left_as_found
        from dynalyze.capture.module_tree import without_output
        from dynalyze.capture.torch_private.compiled_calls import call_that_failed

        call = call_that_failed(error)
        if call is None:
            return
        raised_in_eager = ""
        eager = torch.compiler.set_stance("force_eager")
        kept = left_as_found(getattr(call.func, "__self__", call.func), given=(call.args, call.keywords))
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(kept)
            except Exception:  # What cannot be put back is not called.
                return
            try:
                with eager, side_effects.refused([self._folder]), modes.applied(), without_output():
                    call()
            except side_effects.Refused:
                return
            except Exception as raised:
                # What the program ended by now makes fail proves nothing: a loop that is over, a file that is closed.
                # For the error of an operation torch has words of its own, but the same type.
                by_type = type(error).__name__ == "TorchRuntimeError" or not str(raised)
                if (type(raised).__name__ if by_type else str(raised)) not in str(error):
                    return
                raised_in_eager = f"{type(raised).__name__}: {raised}"[:_LONGEST_ERROR]
        self.emit(events.MadeInEager(raised_in_eager))

    def _write_bundle(self, examples: bool) -> bool:
        """Write the calls that were recorded; False where those of `example_inputs` are to be written instead."""
        from dynalyze.capture.bench import bundle_writing

        collected = bundle_writing.from_recordings(self._compiled_recording, self._recorder)
        if collected is None and examples and not self._listener.compiled_frames:
            return False
        if collected is None:
            self.emit(bundle_writing.nothing(self._compiled_recording, self._recorder))
        else:
            most = self._request.get("largest_copy", bundle_writing.BYTE_CAP)
            written = bundle_writing.write(collected, self._folder, self._request.get("cloudpickle", ""), most)
            self.emit(written)
            if budget := self._request.get("seconds_in_turns"):
                from dynalyze.capture.bench.in_turns import seconds_for

                allowed = seconds_for(written, budget, self._first_compile)
                self._in_turns = (collected.bundle, allowed, not written.too_large) if allowed else None
        return True

    def _time_in_turns(self, calls: Any, allowed: Any, answers: bool) -> None:
        """Time the calls here, where there is no space or no time for other processes; nothing of it is recorded."""
        from dynalyze.capture.bench.in_turns import timed_in_turns
        from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration
        from dynalyze.capture.module_tree import without_output
        from dynalyze.capture.settings import CompileArguments, settings_of

        if any(getattr(calls, "written", ())):
            configuration = Configuration(AS_WRITTEN)
        else:
            configuration = Configuration("default", **settings_of(self._options, CompileArguments))
        with self._listener.paused(), without_output():
            found = timed_in_turns(
                calls, configuration, self._options, self._folder, allowed,
                effects=bool(self._request.get("allow_effects")), answers=answers,
            )  # fmt: skip
        self.emit(found)

    def _time_if_slow(self, make: Callable[[], Any], compiled: Callable[..., Any]) -> None:
        """Time calls here that other processes make anew, where tracing leaves them no time; `make` makes the workload
        of them.
        """
        budget = self._request.get("seconds_in_turns") if self._request.get("bundle") else 0.0
        if budget and self._listener.compiled_frames:
            from dynalyze.capture.bench.failures import Failed
            from dynalyze.capture.bench.in_turns import CompiledWorkload, seconds_where_slow

            if allowed := seconds_where_slow(budget, self._first_compile):
                with contextlib.suppress(Failed):  # Calls that cannot be made again: the processes say so.
                    self._time_in_turns(CompiledWorkload(make(), compiled), allowed, True)

    def _run_object(self) -> Ending:
        request = self._request
        ending, module = program.end_of(lambda: objects.import_target(request["path"], request["module"]))
        shadows.put_back()
        if module is None:
            return ending
        found = objects.find_object(module, request["name"])
        ending, prepared = program.end_of(lambda: _prepared(found, request, module))
        if prepared is None:
            return ending
        target, calls = prepared
        return self._run_calls(target, lambda _: calls)

    def _run_library(self) -> Ending:
        from dynalyze.capture import library_target

        self._compiling_ourselves = True
        ending = library_target.run(
            self._request, self._options, self._emit_call,
            lambda workload, compiled: self._time_if_slow(lambda: workload, compiled),
        )  # fmt: skip
        if not self._listener.compiled_frames and environment.compile_disabled():
            self.emit(environment.nothing_compiled())
        return ending

    def _run_calls(self, target: Callable[..., Any], make: Callable[[Any], list[Inputs]]) -> Ending:
        """Compile `target` and make each call once; a refusal under our own --fullgraph is a fact, not a failure."""
        self._compiling_ourselves = True
        if isinstance(target, type):
            target = target()
        ending, calls = program.end_of(lambda: make(target))
        if calls is None:
            return ending
        if self._in_place is not None:
            self._in_place.remove()
        if self._bundles:
            from dynalyze.capture.bench.bundle_writing import write_examples

            with_cloudpickle = self._request.get("cloudpickle", "")
            self.emit(write_examples(target, calls, self._folder, with_cloudpickle, backward=bool(self._options.train)))
            if not self._request.get("in_place", True):
                return ending
        run = compiled(target, self._options)
        self.emit(events.ObjectStarted(len(calls)))
        with self._modes_of_calls(target, calls):
            endings = [self._one_call(run, index, call) for index, call in enumerate(calls)]
        failed = next((ending for ending in endings if ending.exit_status != 0), None)
        if failed is None and self._request["mode"] == "object":
            from dynalyze.capture.bench.call_workload import workload_over

            phase: Phase = "train" if self._options.train else "forward"
            self._time_if_slow(partial(workload_over, target, calls, phase), run)
        return failed or Ending(exit_status=0)

    def _modes_of_calls(self, target: Callable[..., Any], calls: list[Inputs]) -> AbstractContextManager[Any]:
        """A module is called without gradients, as its benchmark calls it, which then finds it compiled; but for one
        that takes gradients itself, as far as its files tell. Calls of a program have the program's modes.
        """
        import torch

        from dynalyze.capture.bench.call_workload import tensors_in

        given = tensors_in([tuple(call) for call in calls])
        wanted = self._request["mode"] != "object" or self._options.train or any(each.requires_grad for each in given)
        if wanted or not isinstance(target, torch.nn.Module):
            return contextlib.nullcontext()
        names = {type(part).__module__ for part in target.modules()}
        files = [file_of(sys.modules.get(name)) for name in names if not name.startswith("torch.")]
        lines = (line for file in files for line in (linecache.getlines(file) if file else ["backward"]))
        return contextlib.nullcontext() if any(map(_TAKES_GRADIENTS.search, lines)) else torch.no_grad()

    def _one_call(self, run: Callable[..., Any], index: int, call: Inputs) -> Ending:
        def make() -> None:
            try:
                outputs = run(*call.args, **call.kwargs)
            except Exception as error:
                if not (self._options.fullgraph and dynamo.is_refusal(error)):
                    raise
                self._emit_call(events.ObjectCall(index, str(error).splitlines()[0][:500]))
                return
            if self._options.train:
                backward(outputs)
            self._emit_call(events.ObjectCall(index))

        return program.end_of(make)[0]

    def _emit_call(self, event: events.Event) -> None:
        """An event of a call that dynalyze made; what it was made on is still there, and as the call left it."""
        self.emit(event)
        if isinstance(event, events.ObjectCall):
            self._inspection.look_again()

    def _torch_loaded(self, torch: ModuleType) -> None:
        if reason := environment.torch_too_old(torch):
            self._refuse(reason)
            return
        self._listener.listen()
        self.emit(environment.torch_facts(torch))
        if self._bundles:
            from dynalyze.capture.calls import CompiledRecording

            self._compiled_recording = CompiledRecording(self._repeated_without)
        self._compile_calls = CompileCalls(
            self._listener, torch, self._compiled_recording, self._inspection,
            partial(self._program_compiles, at_rest=True), self._compiling_in_place,
            backend_of(self._options.backend) if self._overrides else None,
            leave_out=bool(self._selection),
        )  # fmt: skip
        if self._request["mode"] in _REBUILT:
            return
        # Compile the modules of the program in its own calls, until it compiles something by itself.
        from dynalyze.capture.calls import Recorder
        from dynalyze.capture.in_place import InPlace

        few = {} if self._bundles else {"byte_cap": _FEW_BYTES, "call_cap": _FEW_CALLS}
        self._recorder = Recorder(self._repeated_without, **few)
        self._in_place = InPlace(
            self.emit,
            (lambda target: compiled(target, self._options)) if self._request.get("in_place", True) else None,
            self._recorder,
            self._selection,
            lambda: self._listener.compile_seconds,
            partial(forget_compiles, self._listener, self._inspection),
        )
        self._transforming.stand_in = self._in_place.stand_in_for_tensors
        self._in_place.install()

    @property
    def _overrides(self) -> bool:
        """Whether `--backend` holds for what the program itself compiles."""
        asked = self._request.get("overrides") and "--backend" in self._options.given
        return bool(asked and self._request["mode"] not in _REBUILT)

    @property
    def _repeated_without(self) -> EffectsWatch | None:
        """The effects whose calls are not made again; None where the user allows them."""
        return None if self._request.get("allow_effects") else self._effects

    def _compiling_in_place(self) -> bool:
        return self._in_place is not None and self._in_place.compiling_here

    def _compiling(self, frames: int) -> None:
        self._first_compile = self._first_compile or time.monotonic() - self._began
        if not self._compiling_ourselves and not self._compiling_in_place():
            self._program_compiles(at_rest=False)
        self._inspection.compiling(frames)

    def _program_compiles(self, *, at_rest: bool) -> None:
        """The program compiles by itself: its calls need no compile of ours, and our compile options have no say.

        Args:
            at_rest: it called torch.compile; else a frame of it is being compiled.
        """
        if self._program_compiles_itself or self._compiling_ourselves:
            return
        if self._in_place is not None:
            self._in_place.leave_to_program(at_rest=at_rest)
            if not at_rest:
                self._in_place.remove()
                self._recorder.drop()
        if at_rest:
            return
        self._program_compiles_itself = True
        given = [*self._options.given, *(["--compile"] if self._selection else [])]
        wrapped = self._compile_calls is not None and self._compile_calls.wrapped
        if self._overrides and wrapped:
            given.remove("--backend")
        if given and self._request["mode"] not in _REBUILT:
            call = wrapped[0][0] if wrapped else None
            where = f" ({Path(call.file).name}:{call.line})" if call else ""
            verb = "has" if len(given) == 1 else "have"
            self._refuse(
                f"{', '.join(given)} {verb} no effect here: {self._request['spec']} compiles by itself{where}; "
                "set it in that call of torch.compile, or name the uncompiled model as FILE:NAME"
            )

    def _refuse(self, message: str) -> None:
        """The user's mistake, found while the program runs: emit it and end the program."""
        self._refused = True
        self.emit(events.Misused(message))
        if SOFT_STOP_SIGNAL is not None:
            signal.pthread_kill(threading.main_thread().ident or 0, SOFT_STOP_SIGNAL)

    def others_compiled(self) -> bool:
        """Whether a process that the target started has compiled something."""
        return has_event(self._folder, events.CompileStarted)


def _prepared(found: Any, request: dict[str, Any], module: ModuleType) -> tuple[Any, list[Inputs]]:
    target, calls = objects.prepare(found, request["name"], module, request["inputs"])
    if request.get("attention"):
        from dynalyze.capture import transformers_attention

        transformers_attention.switch(target, request["attention"])
    return target, calls
