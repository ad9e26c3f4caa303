"""Who watches a call (a tracer, autograd, a mode), and what torch.compile returned: how to know it and to look like it.

Run on torch 2.8, 2.13 and 2.15. torch marks the functions that it returns with private attributes. Where a version
lacks them, nothing is recognised: the calls of such a function are not recorded, and it travels as any other.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.hooks import Patch
from dynalyze.capture.torch_private.dynamo import CALL_BOUNDARY, is_compile_error

_TRACING_MODES = frozenset({"FakeTensorMode", "ProxyTorchDispatchMode", "FunctionalTensorMode"})
# Where torch keeps its own copies of nn.Module.__call__, taken when these modules are first imported.
CALL_COPIES = (
    ("torch._dynamo.utils", "unpatched_nn_module_call"),
    ("torch._dynamo.variables.nn_module", "unpatched_nn_module_call"),
    ("torch.fx._symbolic_trace", "_orig_module_call"),
)

_COMPILER = tuple(str(Path(torch.__file__).parent / name) for name in ("_dynamo", "_inductor", "_functorch"))
_GENERATED = "torchinductor_"
_ORIGINAL = "_torchdynamo_orig_callable"
_WRAPPER_ID = "_torchdynamo_wrapper_id"
_DISABLED = "_torchdynamo_disable"
_METHODS = frozenset({"get_compiler_config", "aot_compile", "_isolate_recompiles_id"})
# Of torch 2.12 and later: where the outermost call of a lazy module ends.
_LAZY_FORWARD = "_forward"


def _nothing(*_: Any) -> Any:
    return None


_eval_frame = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
# What Dynamo does with each new frame of this thread: None outside of everything that is compiled.
compile_callback: Callable[[], Any] = getattr(_eval_frame, "get_eval_frame_callback", _nothing)

_graph_task = getattr(torch._C, "_current_graph_task_id", lambda: -1)
_tracing_state = getattr(torch._C, "_get_tracing_state", _nothing)
_modes_active = getattr(torch._C, "_len_torch_dispatch_stack", _nothing)
_functorch = getattr(torch._C, "_functorch", None)
_functorch_level = getattr(_functorch, "peek_interpreter_stack", _nothing)
_functorch_wrapped = getattr(_functorch, "is_functorch_wrapped_tensor", _nothing)
no_dispatch = getattr(torch._C, "_DisableTorchDispatch", contextlib.nullcontext)
no_function = getattr(torch._C, "DisableTorchFunction", contextlib.nullcontext)
_no_subclass = getattr(torch._C, "DisableTorchFunctionSubclass", contextlib.nullcontext)


def being_traced() -> bool:
    """Whether a tracer, an exporter, a function transform or a CUDA graph capture watches this thread."""
    return (
        _tracing_state() is not None
        or _functorch_level() is not None
        or torch.compiler.is_compiling()
        or torch.compiler.is_exporting()
        or bool(getattr(torch.fx._symbolic_trace, "_is_fx_tracing_flag", False))
        or (bool(_modes_active()) and _tracing_mode_active())
        or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
    )


def being_transformed() -> bool:
    """Whether a transform of torch.func is at work, and no compiler."""
    return _functorch_level() is not None and not torch.compiler.is_compiling()


def _tracing_mode_active() -> bool:
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return any(type(mode).__name__ in _TRACING_MODES for mode in _get_current_dispatch_mode_stack())


def is_stand_in(tensor: torch.Tensor) -> bool:
    """Whether the tensor stands for others and holds no values of its own to copy."""
    return type(tensor).__name__ in ("FakeTensor", "FunctionalTensor") or bool(_functorch_wrapped(tensor))


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Tensor work that no mode of the program sees, and that makes no autograd graph and no inference tensors."""
    with torch.inference_mode(False), torch.no_grad(), no_function(), no_dispatch():
        yield


@contextlib.contextmanager
def unobserved_but_for_subclasses() -> Iterator[None]:
    """As `unobserved`, but the methods of tensor subclasses run."""
    try:
        from torch.utils._python_dispatch import _disable_current_modes as no_modes
    except ImportError:
        no_modes = contextlib.nullcontext
    with no_modes(), torch.no_grad(), _no_subclass():
        yield


def compiled_autograd() -> bool:
    """Whether the program compiles its backward passes as a whole: a hook of ours would be compiled with them."""
    config = getattr(getattr(torch, "_dynamo", None), "config", None)
    return bool(getattr(config, "compiled_autograd", False))


def in_backward() -> bool:
    """Whether autograd runs on this thread: its calls of modules are recomputations of checkpoints, or of hooks."""
    return bool(_graph_task() != -1)


def raised_by_compiler(error: BaseException) -> bool:
    """Whether an error comes from the compiler or from code that it made, and not from the program's own code."""
    if is_compile_error(error):
        return True
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(files) and (files[-1].startswith(_COMPILER) or _GENERATED in files[-1])


def call_that_failed(error: BaseException | None) -> functools.partial[Any] | None:
    """Makes the outermost call of a compiled callable again, without compiling it, whose compile ended in `error`; None
    where it was another end. The frame of torch's own wrapper has what it was called with.
    """
    if error is None or not is_compile_error(error):
        return None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        names = frame.f_locals
        wraps = frame.f_code.co_filename.endswith(CALL_BOUNDARY) and {"fn", "args", "kwargs"} <= names.keys()
        if wraps and callable(names["fn"]):
            return functools.partial(names["fn"], *names["args"], **names["kwargs"])
    return None


def is_compiled_module(value: Any) -> bool:
    """Whether it is what torch.compile makes of a module."""
    return isinstance(value, torch.nn.Module) and "_orig_mod" in value._modules and hasattr(value, "dynamo_ctx")


def is_compiled_function(value: Any) -> bool:
    """Whether torch.compile made this very function; a decorator of the user's may have copied the marks."""
    if not isinstance(value, types.FunctionType) or _ORIGINAL not in vars(value) or is_disabled(value):
        return False
    marks = vars(value)
    return bool(marks.get(_WRAPPER_ID, id(value)) == id(value))


def holds_compiled(module: Any) -> bool:
    """Whether calls of a module, or of a part of it, run compiled by themselves."""
    for part in module.modules():
        forwards = vars(part).get("forward"), getattr(type(part), "forward", None)
        if is_compiled_module(part) or getattr(part, "_compiled_call_impl", None) is not None:
            return True
        if any(is_compiled_function(getattr(each, "__func__", each)) for each in forwards):
            return True
    return False


def is_disabled(value: Any) -> bool:
    """Whether torch.compiler.disable made this function."""
    return isinstance(value, types.FunctionType) and bool(vars(value).get(_DISABLED)) and _ORIGINAL in vars(value)


def scripted_from(function: Any) -> Any:
    """The Python function that torch.jit.script compiled; None where this torch does not keep it."""
    return getattr(function, "_torchdynamo_inline", None)


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


def _disguised(wrapper: Any, compiled: Any) -> Any:
    code = compiled.__code__
    wrapper.__code__ = wrapper.__code__.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=code.co_firstlineno
    )
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(wrapper, name, getattr(compiled, name))
    vars(wrapper).update(vars(compiled))
    setattr(wrapper, _WRAPPER_ID, id(wrapper))
    return wrapper


def watch_outermost_calls(called: Callable[[int], bool]) -> bool:
    """Call `called` at each outermost call of something compiled, while it returns True.

    It gets what tells callables apart. torch asks one function in each such call what to do with its frames, which is
    replaced. On a torch without it nothing is called, and the answer is False.
    """
    module = sys.modules.get("torch._dynamo.eval_frame")
    if not hasattr(module, "_callback_from_stance"):
        return False
    patch = Patch(module, "_callback_from_stance")

    def _callback_from_stance(callback: Any) -> Any:
        if patch.active and callable(callback):
            frame = sys._getframe(1)
            outermost = frame.f_code.co_name == "compile_wrapper" and frame.f_locals.get("prior") is None
            if outermost and not called(id(callback)):
                take_away()
        return patch.original(callback)

    take_away = patch.put(_callback_from_stance)
    return True
