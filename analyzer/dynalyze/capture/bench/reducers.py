"""How objects are pickled that a model or its file holds, and that pickle refuses or writes as a name alone.

Each reducer gives what `__reduce__` gives. A lock is made anew, free. What does work of its own, as a thread, is
refused: pickle refuses it for its locks alone, and made anew it would never do that work.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import enum
import functools
import operator
import pickle
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn.utils import parametrize

from dynalyze.capture.torch_private import compiled_calls, custom_operators

_Reduced = tuple[Any, ...]
_WORKS_BY_ITSELF = (threading.Thread, subprocess.Popen, concurrent.futures.Executor, queue.Queue)
# What a weak reference leads to is held by something that may not have travelled.
_held: list[Any] = []


def reduced(value: Any) -> Any:
    """How to write `value`; NotImplemented where pickle is to do it. Raises TypeError for what works by itself."""
    if (reducer := _BY_TYPE.get(type(value))) is not None:
        return reducer(value)
    if isinstance(value, _WORKS_BY_ITSELF):
        raise TypeError(f"cannot pickle {type(value).__name__!r} object")
    if isinstance(value, enum.Enum) and type(value).__members__.get(value.name) is value:
        return operator.getitem, (type(value), value.name)  # By its value it is not found where that holds a NaN.
    if isinstance(value, torch.nn.Module) and parametrize.is_parametrized(value):
        names = list(value.parametrizations.keys())
        return _parametrized, (parametrize.type_before_parametrizations(value), names), dict(vars(value))
    if isinstance(value, torch.optim.Optimizer) and _is_pickled_by_torch(type(value)):
        return object.__new__, (type(value),), _state_of_optimizer(value)
    if isinstance(value, type) and (name := _other_name(value)):
        return getattr, (sys.modules[value.__module__], name)
    if (registered := custom_operators.registration_of(value)) is not None:
        return custom_operators.Registration.register, (registered,)
    return NotImplemented


def _other_name(kind: type) -> str:
    """The name that its module has for a class which calls itself otherwise, as `_SDPBackend` does that is
    `torch.nn.attention.SDPBackend`; "" if it is there by its own.
    """
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__" or hasattr(module, kind.__qualname__.partition(".")[0]):
        return ""
    return next((name for name, each in vars(module).items() if each is kind), "")


def _is_pickled_by_torch(kind: type[Any]) -> bool:
    torchs = torch.optim.Optimizer
    return all(getattr(kind, name) is getattr(torchs, name) for name in ("__getstate__", "__reduce__", "__reduce_ex__"))


def _state_of_optimizer(value: torch.optim.Optimizer) -> dict[str, Any]:
    """torch leaves out what a class of somebody's own keeps beside states and groups. Hooks, and a `step` that a
    scheduler put in, are made anew; what cannot travel is left out as before.
    """
    state: dict[str, Any] = value.__getstate__()
    own = {name: each for name, each in vars(value).items() if name not in state and name[:11] != "_optimizer_"}
    return {**{name: each for name, each in own.items() if _travels(each)}, **state}


def _travels(value: Any) -> bool:
    if isinstance(value, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)):
        return True
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def _parametrized(kind: Any, names: list[str]) -> torch.nn.Module:
    """A module without its state, whose class computes these tensors as `register_parametrization` makes it."""
    made: torch.nn.Module = kind.__new__(kind)
    torch.nn.Module.__init__(made)
    for name in names:
        made.register_parameter(name, torch.nn.Parameter(torch.empty(0)))
        parametrize.register_parametrization(made, name, torch.nn.Identity(), unsafe=True)
    return made


def _of_cache(value: Any) -> Any:
    """A function under `functools.lru_cache`, which Python writes as a name that is not there yet."""
    if value.__module__ != "__main__":
        return NotImplemented
    return _cached, (value.__wrapped__, value.cache_parameters())


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _of_scripted(value: Any) -> Any:
    """A function that `torch.jit.script` compiled, by the Python that it was made of."""
    original = compiled_calls.scripted_from(value)
    return NotImplemented if original is None else (torch.jit.script, (original,))


def _operator(name: str) -> Any:
    return functools.reduce(getattr, name.split("."), torch.ops)


def _of_context_variable(value: contextvars.ContextVar[Any]) -> _Reduced:
    """A library's own by its name, for its code reads that one."""
    main = sys.modules["__main__"]
    for module in list(sys.modules.values()):
        for attribute, each in () if module is main else list(getattr(module, "__dict__", {}).items()):
            if each is value:
                return getattr, (module, attribute)
    try:
        return _context_variable, (value.name, value.get())
    except LookupError:
        return _context_variable, (value.name,)


def _context_variable(name: str, *current: Any) -> contextvars.ContextVar[Any]:
    return contextvars.ContextVar(name, default=current[0]) if current else contextvars.ContextVar(name)


def _weak(value: Any) -> Any:
    """A weak reference to `value`, or one to nothing."""
    _held.append(value)
    return weakref.ref(value if value is not None else type("Gone", (), {})())


def _of_weak_dictionary(value: Any) -> _Reduced:
    return type(value), (), None, None, iter(list(value.items()))


def _thread_local(names: Iterable[tuple[str, Any]]) -> threading.local:
    made = threading.local()
    vars(made).update(names)
    return made


_BY_TYPE: dict[type, Callable[[Any], Any]] = {
    type(threading.Lock()): lambda _: (threading.Lock, ()),
    type(threading.RLock()): lambda _: (threading.RLock, ()),
    threading.local: lambda value: (_thread_local, (list(vars(value).items()),)),
    contextvars.ContextVar: _of_context_variable,
    weakref.ref: lambda value: (_weak, (value(),)),
    weakref.WeakKeyDictionary: _of_weak_dictionary,
    weakref.WeakValueDictionary: _of_weak_dictionary,
    weakref.WeakSet: lambda value: (weakref.WeakSet, (list(value),)),
    functools._lru_cache_wrapper: _of_cache,
    # Before Python 3.12 it holds a lock; what it computed is in its object.
    functools.cached_property: lambda value: (functools.cached_property, (value.func,), {"attrname": value.attrname}),
    torch.finfo: lambda value: (torch.finfo, (getattr(torch, value.dtype),)),
    torch.iinfo: lambda value: (torch.iinfo, (getattr(torch, value.dtype),)),
    torch.jit.ScriptFunction: _of_scripted,
    type(torch.ops.aten.add.Tensor): lambda value: (_operator, (str(value),)),
}
