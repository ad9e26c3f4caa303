"""Records the outermost calls of what a program gives to torch.compile, so that a benchmark can make them again.

The recording stands around what torch.compile returned, and passes on at once in every call that a compiler watches:
Dynamo reads the user's function through torch's own marks and never meets ours.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from dynalyze.capture import adapter_compiled, adapter_replay
from dynalyze.capture.calls import Recorder

_THROUGH_THE_MODULE = ("_call_impl", "_wrapped_call_impl", "__call__")


class CompiledRecording:
    """A recorder for compiled callables, and the arguments with which the program compiled each of them."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.recorder.recording = True
        self.arguments: dict[int, dict[str, Any]] = {}
        self.unsupported: list[str] = []

    def watch(self, model: Any, compiled: Any, arguments: dict[str, Any]) -> Any:
        """What the program gets in place of `compiled`, which torch.compile returned for `model`."""
        target = target_of(model)
        if isinstance(model, type):
            self.unsupported.append(f"{model.__qualname__} was compiled as a class")
            return compiled
        self.arguments[id(target)] = {key: value for key, value in arguments.items() if key != "model"}
        return adapter_compiled.surround(compiled, lambda inner: _recording(self.recorder, target, inner))


def target_of(model: Any) -> Any:
    """The original callable: a module rather than its bound forward, where calling it comes to the same."""
    original = adapter_compiled.original_of(model)
    owner = getattr(original, "__self__", None)
    if not isinstance(original, types.MethodType) or not isinstance(owner, torch.nn.Module):
        return original
    if original.__func__.__name__ in _THROUGH_THE_MODULE:
        return owner
    plain = original.__func__ is getattr(type(owner), "forward", None)
    return owner if plain and not (owner._forward_pre_hooks or owner._forward_hooks) else original


def _recording(recorder: Recorder, target: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
    here = recorder._here
    compile_callback = adapter_replay.compile_callback

    def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
        # Only a call into C before the first return: within a compiled call this frame must do nothing.
        if here.inside or not recorder.recording or compile_callback() is not None:
            return compiled(*args, **kwargs)
        here.inside = True
        call = None
        try:
            call = recorder.begin(target, args, kwargs)
            result = compiled(*args, **kwargs)
        except BaseException as error:
            recorder.failed(call, error)
            raise
        finally:
            here.inside = False
        recorder.end(call, result)
        return result

    return compile_wrapper
