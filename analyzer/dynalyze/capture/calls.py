"""Keeps copies of the calls of a program, so that a benchmark can make them again in other processes.

For what a program gives to torch.compile the recording stands around what that returned, and passes on at once in every
call that a compiler watches: Dynamo reads the user's function through torch's own marks and never meets ours.
"""

from __future__ import annotations

import inspect
import threading
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch

from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.call_context import Modes, ModuleState, ModuleStates, RandomState
from dynalyze.capture.clone import CannotClone, CloneTooLarge, Frozen, freeze
from dynalyze.capture.held import Held, hold, name_of
from dynalyze.capture.hooks import after_fork
from dynalyze.capture.nested_values import Signature, describe_call, leaves, reachable, sign
from dynalyze.capture.side_effects import HINT, EffectsWatch, SideEffect
from dynalyze.capture.torch_private import compiled_calls

FEW = 50
_MOST_MODULES = 64
_MOST_CHANGES = 20
"""Calls that are kept because the program set something before them: a schedule does so before each."""
_MOST_WATCHED = 64
_THROUGH_THE_MODULE = ("_call_impl", "_wrapped_call_impl", "__call__")


@dataclass(slots=True, eq=False)
class KeptCall:
    """All that one call needs to be made again."""

    inputs: Frozen
    modes: Modes
    state: ModuleState
    random: RandomState
    nbytes: int
    with_gradient: list[tuple[weakref.ref[torch.Tensor], torch.Tensor]] = field(default_factory=list)
    """Parameters of its optimizers that had a gradient, each with the norm of that, where it takes no tensor: the
    compiled step of an optimizer.
    """

    def making(self, target: Any) -> Callable[[], Any]:
        """What makes the call again, of `target`; state and random numbers are then what they were."""

        def make() -> Any:
            args, kwargs = self.inputs.thaw()
            self.state.restore()
            self.random.restore()
            with self.modes.applied():
                return target(*args, **kwargs)

        return make


@dataclass(slots=True, eq=False)
class Call:
    """One outermost call, as it was when it began; `kept` is None where its inputs were not copied."""

    index: int
    held: Held
    signature: int
    first: bool
    wanted: bool = False
    kept: KeptCall | None = None
    raised: str = ""
    # How many side effects there were when it began, and the last of those that came with it.
    effects_before: int = 0
    effect: SideEffect | None = None
    # Of a program that compiles by itself: by which of its calls of torch.compile the callable was made.
    compiled_by: int | None = None
    # Set from within autograd, so that the graph holds this list and not the copied inputs: whether the gradients that
    # were taken have gradients (`create_graph`).
    backward_ran: list[bool] = field(default_factory=list)

    @property
    def module(self) -> Any:
        """Or a function, where the program compiles one; None where the program let it go."""
        return self.held.target

    @property
    def backward(self) -> bool:
        return bool(self.backward_ran)

    @property
    def backward_twice(self) -> bool:
        return any(self.backward_ran)


@dataclass(slots=True)
class SignatureSeen:
    """One distinct signature, of one module, by its name; the `number`th that was met."""

    name: str
    text: str
    number: int
    calls: int = 0


def choose(recorder: Recorder) -> list[Call]:
    """The calls to make again: all while they are few, else the first of each signature and its neighbours."""
    recorder.settle()
    ready = [call for call in recorder.calls if call.kept is not None and call.effect is None]
    return ready if recorder.total <= FEW else [call for call in ready if call.wanted]


class Recorder:
    """Keeps every call while they are few, then the first of each signature and its neighbours. Those with an effect on
    the outside, as far as `watch` sees it, are not to be made again.

    The program's results stay as they are: nothing raises into it, no random state moves, its tensors are only read.
    """

    def __init__(self, watch: EffectsWatch | None = None, *, byte_cap: int = 1 << 30, call_cap: int = 1000) -> None:
        self.byte_cap = byte_cap
        self.call_cap = call_cap
        self.recording = True
        self._watch = watch
        self._after_fork()
        after_fork(self._after_fork)

    def stop(self) -> None:
        """Record no more; what was recorded stays."""
        self.recording = False

    @property
    def calls(self) -> list[Call]:
        """The calls that were retained, in the order in which they began, over all threads."""
        with self._lock:
            return list(self._calls.values())

    @property
    def signatures(self) -> list[SignatureSeen]:
        return list(self._signatures.values())

    @property
    def cut(self) -> list[str]:
        """Sentences on what was not recorded, or not exactly."""
        with self._lock:
            counts = self._cut.items()
            return [text.replace("<n>", str(n)).replace("<s>", "" if n == 1 else "s") for text, n in counts]

    def drop(self) -> None:
        """Forget everything that was recorded."""
        with self._lock:
            self._calls: dict[int, Call] = {}
            self.total = 0
            """How many outermost calls the program made, retained or not."""
            """The lines of the program that made them."""
            self._signatures: dict[Signature, SignatureSeen] = {}
            self._held: set[Held] = set()
            self._last: Call | None = None
            self._held_bytes = self._held_calls = self._copied = self._changes = 0
            self._cut: Counter[str] = Counter()
            self._states = ModuleStates()

    def _after_fork(self) -> None:
        """A forked child starts its own recording; the lock may have been held by a thread it does not have."""
        self._lock = threading.RLock()
        self.drop()

    def settle(self) -> None:
        """Look once more at what there is, and drop the calls of what the program let go."""
        with self._lock:
            self._states.set.settle()
        self.forget_gone()

    def forget_gone(self) -> None:
        """Drop the calls of what the program let go."""
        with self._lock:
            self._states.forget_gone()
            self._held = {held for held in self._held if held.target is not None}
            for call in [each for each in self._calls.values() if each.module is None]:
                if call.kept is not None:
                    self._release(call)
                    self._note(f"<n> call<s> of {call.held.name} will not be made again: the program let it go.")
                del self._calls[call.index]

    def _note(self, sentence: str) -> None:
        with self._lock:
            self._cut[sentence] += 1

    # ---- at each outermost call; nothing here may raise into the program

    def begin(self, module: Any, args: Any, kwargs: Any) -> Call | None:
        """Record a call that is about to be made; None where it is not one to record."""
        try:
            if compiled_calls.being_traced() or "_is_replica" in getattr(module, "__dict__", ()):
                return None
            if isinstance(module, torch.jit.ScriptModule):
                self._note("<n> call<s> of modules already compiled by torch.jit cannot be made again.")
                return None
            return self._record(module, args, kwargs)
        except Exception as error:
            self._note(f"<n> call<s> of {name_of(module)} could not be recorded: {one_line(error).rstrip('.')}.")
            return None

    def failed(self, call: Call | None, error: BaseException) -> None:
        """The call ended in an exception of its own, so it is not replayed; one that was only interrupted is."""
        if call is not None and isinstance(error, (Exception, SystemExit)):
            call.raised = type(error).__name__
            self._release(call)
            self._note(f"<n> call<s> of {call.held.name} raised {call.raised} and will not be made again.")

    def end(self, call: Call | None, result: Any) -> None:
        """Learn from the outcome whether there is anything to make again, and later whether backward ran."""
        try:
            if call is None or call.kept is None or not self.recording:
                self._states.set.missed()
                return
            self._states.set.ended(call.kept.state.parts)
            if self._watch is not None and (effect := self._watch.since(call.effects_before)) is not None:
                call.effect = effect
                self._release(call)
                self._note(f"<n> call<s> of {call.held.name} will not be made again: {effect}; {HINT}.")
                return
            if inspect.isgenerator(result) or inspect.iscoroutine(result) or inspect.isasyncgen(result):
                self._release(call)
                self._note(f"<n> call<s> of {call.held.name} returned a {type(result).__name__}.")
                return
            if call.kept.modes.grad and compiled_calls.compiled_autograd():
                call.backward_ran += [False for _ in islice(gradient_outputs(result), 1)]
            elif call.kept.modes.grad:
                _watch_backward(result, call.backward_ran)
        except Exception as error:
            self._note(f"<n> outcome<s> could not be looked at: {one_line(error).rstrip('.')}.")

    def _record(self, module: Any, args: Any, kwargs: Any) -> Call | None:
        held = hold(module)
        if held.has_finalizers:
            self._note(f"<n> call<s> of {held.name} will not be made again: it holds what has a __del__.")
            return None
        if held not in self._held:
            self.forget_gone()
            if len(self._held) >= _MOST_MODULES:
                self._note(f"<n> call<s> went to further modules, after the first {_MOST_MODULES}.")
                return None
        modes = Modes.now()
        call = self._admit(held, (held, getattr(module, "training", None), modes, sign((args, kwargs))))
        call.effects_before = self._watch.count if self._watch is not None else 0
        if self._wants_copy(call):
            self._copy(call, modes, args, kwargs)
        return call

    def _admit(self, held: Held, signature: Signature) -> Call:
        """Count the call, and let go of earlier ones that are now known to be no neighbours of a first."""
        with self._lock:
            self._held.add(held)
            if first := signature not in self._signatures:
                text = describe_call(signature[-1])
                self._signatures[signature] = SignatureSeen(held.name, text, len(self._signatures))
            seen = self._signatures[signature]
            seen.calls += 1
            call = Call(self.total, held, seen.number, first, wanted=first)
            self.total += 1
            self._calls[call.index] = call
            before, self._last = self._last, call
            if before is not None:
                call.wanted = call.wanted or before.first
                before.wanted = before.wanted or call.first
            early: list[Call] = []
            if self.total == FEW + 1:
                early = [each for each in self._calls.values() if not each.wanted and each is not call]
            elif self.total > FEW and before is not None and not before.wanted:
                early = [before]
            for each in early:
                self._release(each)
                self._calls.pop(each.index, None)
            return call

    def _release(self, call: Call) -> None:
        with self._lock:
            kept, call.kept = call.kept, None
            if kept is not None and self._calls.get(call.index) is call:  # Not so after a drop.
                self._held_bytes -= kept.nbytes
                self._held_calls -= 1

    def _wants_copy(self, call: Call) -> bool:
        if self._held_calls >= self.call_cap:
            self._note(f"<n> call<s> were not kept: {self.call_cap:,} others are.")
            return False
        if self._copied >= self.call_cap and not call.wanted:
            self._note(f"<n> call<s> like earlier ones were not copied, after {self.call_cap:,} copies.")
            return False
        return True

    def _copy(self, call: Call, modes: Modes, args: Any, kwargs: Any) -> None:
        name = call.held.name
        left = self.byte_cap - self._held_bytes
        try:
            state, spent = self._states.take(call.module, left, (args, kwargs))
            inputs = freeze((args, kwargs), left - spent)
        except CloneTooLarge:
            cap = f"{self.byte_cap / 2**30:.1f} GiB" if self.byte_cap >= 2**30 else f"{self.byte_cap / 2**20:.1f} MiB"
            self._note(f"<n> call<s> of {name} were not kept: over the limit of {cap} for all copies.")
            return
        except CannotClone as error:
            self._note(f"<n> call<s> of {name} were not kept: an input cannot be copied ({error}).")
            return
        if self._states.set.changed and self._changes < _MOST_CHANGES:
            self._changes, call.wanted = self._changes + 1, True
        for kind in inputs.referenced:
            sentence = "which cannot be copied: a benchmark meets it as it is then."
            self._note(f"<n> call<s> of {name} took a {kind}, {sentence}")
        call.kept = KeptCall(
            inputs,
            modes,
            state,
            RandomState.now(),
            spent + inputs.nbytes,
            list(_with_gradient(call.module, args, kwargs)),
        )
        with self._lock:
            self._held_bytes += call.kept.nbytes
            self._held_calls += 1
            self._copied += 1


def _with_gradient(target: Any, args: Any, kwargs: Any) -> Iterator[tuple[weakref.ref[torch.Tensor], torch.Tensor]]:
    if isinstance(target, torch.nn.Module) or any(
        isinstance(each, torch.Tensor) for each in leaves((args, kwargs), objects=True)
    ):
        return
    with torch.no_grad(), compiled_calls.unobserved():
        for optimizer in reachable(target, torch.optim.Optimizer):
            for group in optimizer.param_groups:
                for each in group["params"]:
                    if each.grad is not None and not each.grad.is_sparse:
                        yield weakref.ref(each), torch.linalg.vector_norm(each.grad)


def gradient_outputs(result: Any) -> Iterator[torch.Tensor]:
    """The outputs a backward may start from; objects that are no containers, as caches, are not opened."""
    for value in leaves(result, objects=False):
        if (
            isinstance(value, torch.Tensor)
            and value.requires_grad
            and (value.is_floating_point() or value.is_complex())
        ):
            yield value


def _watch_backward(result: Any, ran: list[bool]) -> None:
    """Notice a backward through these outputs, on the graph's nodes: the tensors themselves stay without hooks."""

    def notice(_: Any) -> None:
        if (twice := torch.is_grad_enabled()) not in ran:
            ran.append(twice)

    for output in islice(gradient_outputs(result), _MOST_WATCHED):
        if output.grad_fn is not None:
            output.grad_fn.register_prehook(notice)


@dataclass(frozen=True)
class CompiledAs:
    """How a program compiled a callable: its arguments of torch.compile, and the method of the module that it gave
    where it gave one, as `module.compile()` does.
    """

    arguments: dict[str, Any]
    method: str = ""

    def compile(self, target: Any) -> Any:
        """The same for `target`, which is the callable or the module behind it."""
        owner = getattr(target, "__self__", target)
        if self.method and isinstance(owner, torch.nn.Module):
            target = types.MethodType(getattr(type(owner), self.method), owner)
        # torch takes entries out of the dict of options.
        given = {key: dict(value) if type(value) is dict else value for key, value in self.arguments.items()}
        return torch.compile(target, **given)


class _RecordingThread(threading.local):
    inside = False


class CompiledRecording:
    """A recorder for compiled callables, and how the program compiled them, one entry for each of its compiles."""

    def __init__(self, watch: EffectsWatch | None = None) -> None:
        self.recorder = Recorder(watch)
        self._thread = _RecordingThread()
        self.written: list[CompiledAs] = []
        self.unsupported: list[str] = []

    def watch(self, model: Any, compiled: Any, arguments: dict[str, Any]) -> Any:
        """What the program gets in place of `compiled`, which torch.compile returned for `model`."""
        target = target_of(model)
        if isinstance(model, type):
            self.unsupported.append(f"{model.__qualname__} was compiled as a class")
            return compiled
        number = len(self.written)
        given = {key: value for key, value in arguments.items() if key != "model"}
        original = compiled_calls.original_of(model)  # A method of the module `target`, where that was given.
        method = "" if original is target else str(getattr(original, "__name__", ""))
        self.written.append(CompiledAs(given, method))
        return compiled_calls.surround(compiled, lambda inner: self._recording(target, inner, number))

    def _recording(self, target: Any, compiled: Callable[..., Any], number: int) -> Callable[..., Any]:
        recorder, here = self.recorder, self._thread
        compile_callback = compiled_calls.compile_callback

        def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
            # Only a call into C before the first return: within a compiled call this frame must do nothing.
            if here.inside or not recorder.recording or compile_callback() is not None:
                return compiled(*args, **kwargs)
            here.inside = True
            call = None
            try:
                call = recorder.begin(target, args, kwargs)
                if call is not None:
                    call.compiled_by = number
                result = compiled(*args, **kwargs)
            except BaseException as error:
                recorder.failed(call, error)
                raise
            finally:
                here.inside = False
            recorder.end(call, result)
            return result

        return compile_wrapper


def target_of(model: Any) -> Any:
    """The original callable: a module rather than its bound forward, where calling it comes to the same."""
    original = compiled_calls.original_of(model)
    owner = getattr(original, "__self__", None)
    if not isinstance(original, types.MethodType) or not isinstance(owner, torch.nn.Module):
        return original
    if getattr(original.__func__, "__name__", "") in _THROUGH_THE_MODULE:
        return owner
    plain = original.__func__ is getattr(type(owner), "forward", None)
    return owner if plain and not (owner._forward_pre_hooks or owner._forward_hooks) else original
