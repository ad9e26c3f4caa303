"""Records the outermost calls of what a program gives to torch.compile, so that a benchmark can make them again.

The recording stands around what torch.compile returned, and passes on at once in every call that a compiler watches:
Dynamo reads the user's function through torch's own marks and never meets ours.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dynalyze.capture.calls import Recorder
from dynalyze.capture.side_effects import EffectsWatch
from dynalyze.capture.torch_private import compiled_calls

_THROUGH_THE_MODULE = ("_call_impl", "_wrapped_call_impl", "__call__")


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
    if original.__func__.__name__ in _THROUGH_THE_MODULE:
        return owner
    plain = original.__func__ is getattr(type(owner), "forward", None)
    return owner if plain and not (owner._forward_pre_hooks or owner._forward_hooks) else original
