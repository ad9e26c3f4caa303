"""What torch.compile returns: how to know it, how to find the original in it, how to look like it.

torch marks the functions it returns with private attributes. Where a version lacks them, nothing is recognised: then
the calls of such a function are not recorded, and the function travels as any other.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

_ORIGINAL = "_torchdynamo_orig_callable"
_WRAPPER_ID = "_torchdynamo_wrapper_id"
_DISABLED = "_torchdynamo_disable"
_METHODS = frozenset({"get_compiler_config", "aot_compile", "_isolate_recompiles_id"})
# Of torch 2.12 and later: where the outermost call of a lazy module ends.
_LAZY_FORWARD = "_forward"


def is_compiled_module(value: Any) -> bool:
    """Whether it is what torch.compile makes of a module."""
    return isinstance(value, torch.nn.Module) and "_orig_mod" in value._modules and hasattr(value, "dynamo_ctx")


def is_compiled_function(value: Any) -> bool:
    """Whether torch.compile made this very function; a decorator of the user's may have copied the marks."""
    if not isinstance(value, types.FunctionType) or _ORIGINAL not in vars(value) or is_disabled(value):
        return False
    marks = vars(value)
    return bool(marks.get(_WRAPPER_ID, id(value)) == id(value))


def is_disabled(value: Any) -> bool:
    """Whether torch.compiler.disable made this function."""
    return isinstance(value, types.FunctionType) and bool(vars(value).get(_DISABLED)) and _ORIGINAL in vars(value)


def wraps_tensors(value: Any) -> bool:
    """Whether it is a tensor that holds others and has no memory of its own, as quantised and distributed ones do."""
    marks = ("__tensor_flatten__", "__tensor_unflatten__")
    return type(value) is not torch.Tensor and isinstance(value, torch.Tensor) and all(hasattr(value, m) for m in marks)


def original_of(value: Any) -> Any:
    """The callable behind all wrappers of torch.compile; the value itself where there is none."""
    while True:
        if is_compiled_module(value):
            value = value._orig_mod
        elif is_compiled_function(value) or is_disabled(value):
            value = vars(value)[_ORIGINAL]
        else:
            return value


def without_copied_marks(value: Any) -> Any:
    """A function without the marks that functools.wraps copied from a compiled one: they lead into the compiler."""
    if not isinstance(value, types.FunctionType) or _ORIGINAL not in vars(value):
        return value
    made = types.FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, value.__closure__)
    for name in ("__kwdefaults__", "__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(made, name, getattr(value, name))
    own = {name: held for name, held in vars(value).items() if not name.startswith("_torchdynamo")}
    vars(made).update({name: held for name, held in own.items() if name not in _METHODS})
    return made


def surround(compiled: Any, make: Callable[[Any], Callable[..., Any]]) -> Any:
    """Put the wrapper that `make` returns around the calls of what torch.compile returned.

    The wrapper gets every mark of the original: Dynamo goes by these where it meets the function inside another one
    that it compiles, and reads the user's function, never the wrapper.
    """
    if is_compiled_function(compiled):
        return _disguised(make(compiled), compiled)
    if is_compiled_module(compiled):
        for name in (_LAZY_FORWARD, "forward"):
            inner = vars(compiled).get(name)
            if is_compiled_function(inner):
                setattr(compiled, name, _disguised(make(inner), inner))
                break
    return compiled


def _disguised(wrapper: Any, compiled: Any) -> Callable[..., Any]:
    code = compiled.__code__
    wrapper.__code__ = wrapper.__code__.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=code.co_firstlineno
    )
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(wrapper, name, getattr(compiled, name))
    vars(wrapper).update(vars(compiled))
    setattr(wrapper, _WRAPPER_ID, id(wrapper))
    made: Callable[..., Any] = wrapper
    return made
