"""Records the outermost nn.Module calls of a program that compiles nothing, so that they can be made again compiled.

nn.Module.__call__ is wrapped on the class: a hook would be traced into the program's own compile, and nothing is
attached to any instance. The recording is per thread: what a module calls inside its forward is not outermost.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import torch

from dynalyze.capture import adapter_replay as adapter
from dynalyze.capture.ambient import Modes, RandomState
from dynalyze.capture.clone import CannotClone, Frozen, OverBudget, freeze
from dynalyze.capture.module_state import ModuleState, ModuleStates
from dynalyze.capture.signature import Signature, describe_call, sign
from dynalyze.capture.structure import leaves

Kind = Literal["model", "loss"]
FEW = 50
_MOST_MODULES = 64
_MOST_WATCHED = 64


@dataclass(slots=True, eq=False)
class Kept:
    """All that one call needs to be made again."""

    inputs: Frozen
    modes: Modes
    state: ModuleState
    random: RandomState
    nbytes: int


@dataclass(slots=True, eq=False)
class Call:
    """One outermost call, as it was when it began; `kept` is None where its inputs were not copied."""

    index: int
    module: Any  # Or a function, where the program compiles one.
    kind: Kind
    signature: int
    first: bool
    wanted: bool = False
    kept: Kept | None = None
    raised: str = ""
    # Of a program that compiles by itself: by which of its calls of torch.compile the callable was made.
    compiled_by: int | None = None
    # Set from within autograd, so that the graph holds this list and not the copied inputs.
    backward_ran: list[bool] = field(default_factory=list)

    @property
    def backward(self) -> bool:
        return bool(self.backward_ran)


@dataclass(slots=True)
class SignatureSeen:
    """One distinct signature, of one module."""

    module: Any
    text: str
    calls: int = 0


class _Thread(threading.local):
    inside = False


class Recorder:
    """Keeps every call while they are few, then the first of each signature and its neighbours.

    The program's results stay as they are: nothing raises into it, no random state moves, its tensors are only read.
    """

    def __init__(
        self, byte_cap: int = 1 << 30, call_cap: int = 1000, on_first: Callable[[], None] | None = None
    ) -> None:
        """`on_first` is called when the first call begins."""
        self._on_first = on_first
        self.byte_cap = byte_cap
        self.call_cap = call_cap
        self.recording = False
        self._lock = threading.RLock()
        self._here = _Thread()
        self._original: Callable[..., Any] | None = None
        self._wrapper: Callable[..., Any] | None = None
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def install(self) -> None:
        """Start recording. Called right after torch was imported."""
        self._original = torch.nn.Module.__call__
        self._wrapper = _wrapping(self, self._original)
        self.recording = True
        torch.nn.Module.__call__ = self._wrapper
        _replace_copies(self._original, self._wrapper)

    def stop(self) -> None:
        """Put the original back and keep what was recorded; cheap, from any thread, as often as you like."""
        self.recording = False
        if self._wrapper is None or self._original is None:
            return
        # Somebody else may have patched it after us: then our wrapper stays below theirs, and only passes on.
        if torch.nn.Module.__dict__.get("__call__") is self._wrapper:
            torch.nn.Module.__call__ = self._original
        _replace_copies(self._wrapper, self._original)

    def drop(self) -> None:
        """Forget everything that was recorded."""
        with self._lock:
            self._forget()

    @property
    def calls(self) -> list[Call]:
        """The calls that were retained, in the order in which they began, over all threads."""
        with self._lock:
            return [self._calls[index] for index in sorted(self._calls)]

    @property
    def total(self) -> int:
        """How many outermost calls the program made, retained or not."""
        return self._total

    def made(self, kind: Kind) -> int:
        """How many of them went to modules of this kind."""
        return self._made[kind]

    @property
    def signatures(self) -> list[SignatureSeen]:
        return list(self._signatures.values())

    @property
    def cut(self) -> list[str]:
        """Sentences on what was not recorded, or not exactly."""
        with self._lock:
            return [sentence.format(n=n, s="" if n == 1 else "s") for sentence, n in self._cut.items()]

    def _forget(self) -> None:
        self._calls: dict[int, Call] = {}
        self._total = 0
        self._signatures: dict[Signature, SignatureSeen] = {}
        self._numbers: dict[Signature, int] = {}
        self._modules: dict[int, Any] = {}
        self._losses: set[int] = set()
        self._made: Counter[Kind] = Counter()
        self._last: dict[Kind, Call] = {}
        self._held_bytes = 0
        self._held_calls = 0
        self._copied = 0
        self._cut: Counter[str] = Counter()
        self._states = ModuleStates()

    def _after_fork(self) -> None:
        """A forked child starts its own recording; the lock may have been held by a thread it does not have."""
        self._lock = threading.RLock()
        self._here.inside = False
        self._forget()

    def _note(self, sentence: str) -> None:
        with self._lock:
            self._cut[sentence.replace("{", "{{").replace("}", "}}").replace("<n>", "{n}").replace("<s>", "{s}")] += 1

    # ---- at each outermost call; nothing here may raise into the program

    def begin(self, module: Any, args: Any, kwargs: Any) -> Call | None:
        """Record a call that is about to be made; None where it is not one to record."""
        try:
            if adapter.being_traced() or "_is_replica" in getattr(module, "__dict__", ()):
                return None
            if isinstance(module, torch.jit.ScriptModule):
                self._note("<n> call<s> of modules already compiled by torch.jit cannot be replayed.")
                return None
            return self._record(module, args, kwargs)
        except Exception as error:
            self._note(f"<n> call<s> of {name_of(module)} could not be recorded: {_short(error)}.")
            return None

    def failed(self, call: Call | None, error: BaseException) -> None:
        """The call ended in an exception of its own, so it is not replayed; one that was only interrupted is."""
        if call is not None and isinstance(error, (Exception, SystemExit)):
            call.raised = type(error).__name__
            self._release(call)
            self._note(f"<n> call<s> of {name_of(call.module)} raised {call.raised} and will not be replayed.")

    def end(self, call: Call | None, result: Any) -> None:
        """Learn from the outcome whether this is a loss, and later whether backward ran."""
        try:
            if call is None or call.kept is None or not self.recording:
                return
            if inspect.isgenerator(result) or inspect.iscoroutine(result) or inspect.isasyncgen(result):
                self._release(call)
                self._note(f"<n> call<s> of {name_of(call.module)} returned a {type(result).__name__}.")
                return
            if _looks_like_loss(call.module, result):
                self._call_it_a_loss(call)
            if call.kept.modes.grad and adapter.compiled_autograd():
                call.backward_ran += [True for _ in islice(gradient_outputs(result), 1)]
            elif call.kept.modes.grad:
                _watch_backward(result, call.backward_ran)
        except Exception as error:
            self._note(f"<n> outcome<s> could not be looked at: {_short(error)}.")

    def _call_it_a_loss(self, call: Call) -> None:
        with self._lock:
            self._losses.add(id(call.module))
            if call.kind == "model":
                call.kind = "loss"
                self._made.update(model=-1, loss=1)
                self._last = {kind: last for kind, last in self._last.items() if last is not call}

    def _record(self, module: Any, args: Any, kwargs: Any) -> Call | None:
        if self._on_first is not None:
            self._on_first()
            self._on_first = None
        if id(module) not in self._modules and len(self._modules) >= _MOST_MODULES:
            self._note(f"<n> call<s> went to further modules, after the first {_MOST_MODULES}.")
            return None
        modes = Modes.now()
        arguments = sign((args, kwargs))
        call = self._admit(module, (id(module), getattr(module, "training", None), modes, arguments))
        if self._wants_copy(call):
            self._copy(call, modes, args, kwargs)
        return call

    def _admit(self, module: Any, signature: Signature) -> Call:
        """Count the call, and let go of earlier ones that are now known to be no neighbours of a first."""
        with self._lock:
            self._modules[id(module)] = module
            kind: Kind = "loss" if id(module) in self._losses or _is_loss(module) else "model"
            first = signature not in self._signatures
            if first:
                self._numbers[signature] = len(self._signatures)
                self._signatures[signature] = SignatureSeen(module, describe_call(signature[-1]))
            self._signatures[signature].calls += 1
            call = Call(self._total, module, kind, self._numbers[signature], first, wanted=first)
            self._total += 1
            self._made[kind] += 1
            self._calls[call.index] = call
            self._thin(call)
            return call

    def _thin(self, call: Call) -> None:
        before = self._last.get(call.kind)
        self._last[call.kind] = call
        if before is not None:
            call.wanted = call.wanted or before.first
            before.wanted = before.wanted or call.first
        if self._made[call.kind] == FEW + 1:
            for early in [c for c in self._calls.values() if c.kind == call.kind and not c.wanted and c is not call]:
                self._discard(early)
        elif self._made[call.kind] > FEW and before is not None and not before.wanted:
            self._discard(before)

    def _discard(self, call: Call) -> None:
        self._let_go(call)
        self._calls.pop(call.index, None)

    def _release(self, call: Call) -> None:
        with self._lock:
            self._let_go(call)

    def _let_go(self, call: Call) -> None:
        kept, call.kept = call.kept, None
        if kept is not None and self._calls.get(call.index) is call:  # Not so after a drop.
            self._held_bytes -= kept.nbytes
            self._held_calls -= 1

    def _wants_copy(self, call: Call) -> bool:
        if call.kind == "loss" and self._made["model"]:
            return False  # A program's loss is not what its owner wants compiled, once there is a model.
        if self._held_calls >= self.call_cap:
            self._note(f"<n> call<s> were not kept: {self.call_cap:,} others are.")
            return False
        if self._copied >= self.call_cap and not call.wanted:
            self._note(f"<n> call<s> like earlier ones were not copied, after {self.call_cap:,} copies.")
            return False
        return True

    def _copy(self, call: Call, modes: Modes, args: Any, kwargs: Any) -> None:
        name = name_of(call.module)
        left = self.byte_cap - self._held_bytes
        try:
            state, spent = self._states.take(call.module, left, (args, kwargs))
            inputs = freeze((args, kwargs), left - spent)
        except OverBudget:
            self._note(f"<n> call<s> of {name} were not kept: over the limit of {_size(self.byte_cap)} for all copies.")
            return
        except CannotClone as error:
            self._note(f"<n> call<s> of {name} were not kept: an input cannot be copied ({error}).")
            return
        for kind in inputs.referenced:
            self._note(
                f"<n> call<s> of {name} took a {kind}, which cannot be copied: the replay meets it as it is then."
            )
        call.kept = Kept(inputs, modes, state, RandomState.now(), spent + inputs.nbytes)
        with self._lock:
            self._held_bytes += call.kept.nbytes
            self._held_calls += 1
            self._copied += 1


def _wrapping(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    """The function that takes the place of nn.Module.__call__."""
    here = recorder._here
    is_compiling = torch.compiler.is_compiling
    compile_callback = adapter.compile_callback

    def _wrapped_call_impl(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Only calls into C before the first return: under torch.compile a frame of ours would be compiled too.
        if is_compiling() or here.inside or not recorder.recording or compile_callback() is not None:
            return original(self, *args, **kwargs)
        here.inside = True
        call = None
        try:
            call = recorder.begin(self, args, kwargs)
            result = original(self, *args, **kwargs)
        except BaseException as error:
            recorder.failed(call, error)
            raise
        finally:
            here.inside = False
        recorder.end(call, result)
        return result

    return _disguised(_wrapped_call_impl, original)


def _disguised(wrapper: Any, original: Any) -> Callable[..., Any]:
    """Give the wrapper the name and file of the original: torch's rules on what to skip and to inline go by both."""
    if isinstance(original, types.FunctionType):
        code = original.__code__
        wrapper.__code__ = wrapper.__code__.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno)
        wrapper.__module__, wrapper.__qualname__ = original.__module__, original.__qualname__
        wrapper.__name__, wrapper.__doc__ = original.__name__, original.__doc__
        wrapper.__annotations__ = dict(original.__annotations__)
    made: Callable[..., Any] = wrapper
    return made


def _replace_copies(old: Any, new: Any) -> None:
    """torch compares nn.Module.__call__ with copies taken at import, to see that nobody patched it."""
    for name, attribute in adapter.CALL_COPIES:
        module = sys.modules.get(name)
        if module is not None and getattr(module, attribute, None) is old:
            setattr(module, attribute, new)


def name_of(target: Any) -> str:
    """The name of a module's class, or of a function."""
    return type(target).__name__ if isinstance(target, torch.nn.Module) else getattr(target, "__qualname__", "function")


def _is_loss(module: Any) -> bool:
    return isinstance(module, torch.nn.modules.loss._Loss)


def _looks_like_loss(module: Any, result: Any) -> bool:
    if not (isinstance(module, torch.nn.Module) and isinstance(result, torch.Tensor)):
        return False
    return result.dim() == 0 and not (module._modules or module._parameters)


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
        if not ran:
            ran.append(True)

    for number, output in enumerate(gradient_outputs(result)):
        if number >= _MOST_WATCHED:
            break
        if output.grad_fn is not None:
            output.grad_fn.register_prehook(notice)


def _short(error: Exception) -> str:
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line}"[:200].rstrip(".")


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**30:.1f} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:.1f} MiB"
