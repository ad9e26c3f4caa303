"""The parts of a module that was compiled: their code, and the share of an eager call that each of them takes."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch

from dynalyze.capture.events import ModuleTree, TreeClass, TreePart
from dynalyze.capture.side_effects import Refused

_MOST_PARTS = 3000
_LONGEST_CALL_SECONDS = 5.0
_CONTAINERS = (torch.nn.Module, torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)
Range = tuple[str, int, int]
"""A file, and the first and the last line of a function in it."""


def module_tree(name: str, module: torch.nn.Module, call: Callable[[], Any] | None) -> ModuleTree:
    """Every part by its path below `module`, "" for itself.

    `call` makes a call of the uncompiled module; where it is None or fails, no part has a time.
    """
    # Under every path that it has: a part that is shared belongs to all that hold it.
    named = list(islice(module.named_modules(remove_duplicate=False), _MOST_PARTS))
    seconds = _seconds_of(module, call) if call is not None else {}
    classes: dict[type, int] = {}
    uninitialized = torch.nn.parameter.UninitializedTensorMixin
    parts = [
        TreePart(
            path,
            kind=classes.setdefault(type(part), len(classes)),
            parameters=sum(each.numel() for each in part.parameters() if not isinstance(each, uninitialized)),
            seconds=seconds.get(id(part)),
        )
        for path, part in named
    ]
    return ModuleTree(name, classes=[_class(kind) for kind in classes], parts=parts)


def _class(kind: type) -> TreeClass:
    forward = getattr(kind, "forward", None)
    callable_itself = forward is not None and forward is not torch.nn.Module.forward
    code = getattr(inspect.unwrap(forward), "__code__", None) if forward is not None and callable_itself else None
    # What its classes bring, without those that every module has.
    own = (value for each in kind.__mro__ if each not in (torch.nn.Module, object) for value in vars(each).values())
    methods = (inspect.unwrap(value) for value in own if isinstance(value, types.FunctionType))
    return TreeClass(
        kind.__qualname__,
        # A class derived from one of torch's layers is no more than a layer either.
        layer=any(each.__module__.startswith("torch.nn.modules.") and each not in _CONTAINERS for each in kind.__mro__),
        # Its forward is torch's own, also where the class is not: `class Encoder(nn.Sequential)`.
        of_torch=str(getattr(forward, "__module__", None) or kind.__module__).partition(".")[0] == "torch",
        callable=callable_itself and kind not in (torch.nn.ModuleList, torch.nn.ModuleDict),
        code=[_range_of(each.__code__) for each in methods if isinstance(each, types.FunctionType)],
        forward=(code.co_filename, code.co_firstlineno) if isinstance(code, types.CodeType) else None,
        # What takes nothing only makes or joins parameters, as a parametrization does.
        fed=not isinstance(code, types.CodeType) or bool(code.co_argcount > 1 or code.co_flags & inspect.CO_VARARGS),
        indexed=issubclass(kind, (torch.nn.Sequential, torch.nn.ModuleList)),
    )


def _range_of(code: types.CodeType) -> Range:
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    inner = [_range_of(each)[2] for each in code.co_consts if isinstance(each, types.CodeType)]
    return code.co_filename, code.co_firstlineno, max([last, *inner])


def _seconds_of(model: torch.nn.Module, call: Callable[[], Any]) -> dict[int, float]:
    """What each module takes in an eager call, with all below it; the second of two calls counts."""
    from dynalyze.capture.bench.state_snapshot import left_as_found

    seconds: dict[int, float] = {}
    try:
        with torch.compiler.set_stance("force_eager"), without_output(), left_as_found(model):
            began = time.perf_counter()
            call()
            if time.perf_counter() - began > _LONGEST_CALL_SECONDS:
                return {}
            with _timed(seconds):
                call()
    except (Exception, Refused):  # The program's own code, called once more than it was meant to be.
        return {}
    return seconds


@contextlib.contextmanager
def _timed(seconds: dict[int, float]) -> Iterator[None]:
    """Add up the time of every module call in the block, by the id of the module."""
    begun: list[float] = []

    def before(module: Any, inputs: Any) -> None:
        _finish_kernels()
        begun.append(time.perf_counter())

    def after(module: Any, inputs: Any, outputs: Any) -> None:
        _finish_kernels()
        if begun:
            seconds[id(module)] = seconds.get(id(module), 0.0) + time.perf_counter() - begun.pop()

    hooks = torch.nn.modules.module
    with hooks.register_module_forward_pre_hook(before), hooks.register_module_forward_hook(after, always_call=True):
        yield


def _finish_kernels() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


@contextlib.contextmanager
def without_output() -> Iterator[None]:
    """Discard what the block writes to standard output and error, at file-descriptor level."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(nowhere)
