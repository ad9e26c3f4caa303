"""The settings of torch that change what compile does or how fast it is, from an allowlist; and what holds for a whole
process, which code leaves to all that runs after it; and what functions are, which code may put others in place of.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import logging
import os
import pickle
import random
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from dynalyze.capture.installed import file_of, is_installed
from dynalyze.capture.torch_private import runtime

_DYNAMO = (
    "capture_scalar_outputs", "capture_dynamic_output_shape_ops", "recompile_limit", "accumulated_recompile_limit",
    "assume_static_by_default", "automatic_dynamic_shapes", "allow_unspec_int_on_nn_module", "optimize_ddp",
    "suppress_errors", "compiled_autograd", "nested_graph_breaks",
    "force_parameter_static_shapes",
)  # fmt: skip
_HIDING = ("suppress_errors",)
_INDUCTOR = (
    "triton.cudagraphs", "triton.cudagraph_trees", "triton.cudagraph_skip_dynamic_graphs",
    "triton.cudagraph_capture_sizes", "triton.cudagraph_dynamic_shape_warn_limit", "max_autotune", "max_autotune_gemm",
    "freezing", "emulate_precision_casts", "fallback_random", "cpp_wrapper", "fx_graph_cache", "shape_padding",
    "coordinate_descent_tuning", "epilogue_fusion",
)  # fmt: skip
_MATMUL = "torch.backends.cuda.matmul"
OF_LIBRARIES = ("TORCH", "_TORCH", "PYTORCH", "TRITON", "KINETO", "CUDA", "OMP_", "KMP_", "MKL_")
"""Variables that torch and the libraries below it set for themselves."""
_Reading = tuple[str, Callable[[], Any]]
_OF_COMPILERS = frozenset({"dynalyze", "triton", "sympy", "networkx", "torchgen", "depyf"})
"""Packages that change as they are used, by what is compiled."""
_MOST_VALUES = 100_000
_OF_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


def settings_seen() -> dict[str, Any]:
    """The values as they are now, under torch's own names; what cannot be read is left out. Never raises.

    Autocast and the modes of autograd are those of the calling thread.
    """
    return _read(_modes, _precision, _configs, _cuda)


def process_settings() -> dict[str, Any]:
    """What a call may set for all that runs after it, compilers aside; what the program gives a text is a digest."""
    return _read(_modes, _precision, _process)


def left_behind() -> dict[str, Any]:
    """The same with the variables of the process, where random numbers of Python and NumPy stand, and whether what
    fails to compile runs in eager without a word.
    """
    return process_settings() | runtime.config_values("torch._dynamo.config", _HIDING) | _read(_surroundings)


def _read(*parts: Callable[[], Iterator[_Reading]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        with contextlib.suppress(Exception):
            for name, read in part():
                with contextlib.suppress(Exception):  # torch raises where old and new names for TF32 were mixed.
                    found[name] = _plain(read())
    return found


def _modes() -> Iterator[_Reading]:
    import torch

    yield "torch.initial_seed", torch.initial_seed
    yield "torch.num_threads", torch.get_num_threads
    yield "torch.get_default_dtype", torch.get_default_dtype
    yield "torch.is_grad_enabled", torch.is_grad_enabled
    yield "torch.is_inference_mode_enabled", torch.is_inference_mode_enabled
    yield "torch.are_deterministic_algorithms_enabled", torch.are_deterministic_algorithms_enabled
    for device in ("cpu", "cuda"):
        yield f"torch.autocast.{device}.enabled", partial(torch.is_autocast_enabled, device)
        yield f"torch.autocast.{device}.dtype", partial(torch.get_autocast_dtype, device)
    for kind in ("flash", "mem_efficient", "math", "cudnn"):
        name = f"{kind}_sdp_enabled"
        yield f"torch.backends.cuda.{name}", lambda name=name: getattr(torch.backends.cuda, name)()  # type: ignore[misc]


def _precision() -> Iterator[_Reading]:
    import torch

    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    yield "torch.float32_matmul_precision", torch.get_float32_matmul_precision
    # Since torch 2.9; its older name may warn, into the program's own output.
    if getattr(matmul, "fp32_precision", None) is not None:
        yield f"{_MATMUL}.fp32_precision", lambda: matmul.fp32_precision
        yield f"{_MATMUL}.allow_tf32", lambda: matmul.fp32_precision == "tf32"
        yield "torch.backends.cudnn.conv.fp32_precision", lambda: cudnn.conv.fp32_precision
    else:
        yield f"{_MATMUL}.allow_tf32", lambda: matmul.allow_tf32
        yield "torch.backends.cudnn.allow_tf32", lambda: cudnn.allow_tf32
    for name in ("allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction"):
        yield f"{_MATMUL}.{name}", partial(getattr, matmul, name)
    for name in ("enabled", "benchmark", "deterministic"):
        yield f"torch.backends.cudnn.{name}", partial(getattr, cudnn, name)


def _configs() -> Iterator[_Reading]:
    for config, names in {"torch._dynamo.config": _DYNAMO, "torch._inductor.config": _INDUCTOR}.items():
        for name, value in runtime.config_values(config, names).items():
            yield name, lambda value=value: value  # type: ignore[misc]


def _cuda() -> Iterator[_Reading]:
    """The device that is current, only where the program has begun to use CUDA: asking first would begin it."""
    cuda = sys.modules["torch"].cuda
    if not cuda.is_initialized():
        return
    properties = cuda.get_device_properties(cuda.current_device())
    yield "torch.cuda.device_count", cuda.device_count
    yield "torch.cuda.get_device_capability", cuda.get_device_capability
    yield "torch.cuda.get_device_name", lambda: properties.name
    yield "torch.cuda.get_device_properties.total_memory", lambda: properties.total_memory


def _process() -> Iterator[_Reading]:
    import torch

    yield "torch.get_default_device", lambda: str(torch.get_default_device())
    yield "torch.is_anomaly_enabled", torch.is_anomaly_enabled
    yield "torch.is_warn_always_enabled", torch.is_warn_always_enabled
    yield "torch.backends.mkldnn.enabled", lambda: torch.backends.mkldnn.enabled
    # Neither can be asked: a number that is flushed, and one as it is printed.
    yield "torch.set_flush_denormal", lambda: not torch.tensor(1e-40, device="cpu").mul(1).item()
    yield (
        "torch.set_printoptions",
        lambda: _digest(repr(torch.tensor([1e-9, 1 / 3], dtype=torch.float64, device="cpu"))),
    )
    # Compilers import packages where nothing is in their caches, which bring filters and folders of their own.
    filters = [each for each in warnings.filters if each[2].__module__ == "builtins"]
    yield "warnings.filters", partial(_digest, filters)
    yield "sys.path", lambda: _digest([each for each in sys.path if not is_installed(each + os.sep)])
    yield "gc.isenabled", gc.isenabled
    yield "gc.get_threshold", gc.get_threshold
    # Inductor raises it to that where it compiles what is not in its cache.
    yield "sys.getrecursionlimit", lambda: max(sys.getrecursionlimit(), 2000)
    yield "sys.getswitchinterval", sys.getswitchinterval
    yield "socket.getdefaulttimeout", lambda: sys.modules["socket"].getdefaulttimeout()
    yield "os.getcwd", lambda: _digest(os.getcwd())  # noqa: PTH109 - as text.
    yield "logging.disable", lambda: logging.root.manager.disable
    for name, logger in {"": logging.root, **logging.root.manager.loggerDict}.items():
        if isinstance(logger, logging.Logger) and not name.startswith(("torch", "dynalyze")):
            state = logger.level, logger.disabled, logger.propagate, [type(each).__name__ for each in logger.handlers]
            if state != (0, False, True, []):  # As a logger is that somebody has only asked for.
                yield f"logging.getLogger({name!r})", partial(_digest, state)
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        yield f"signal {int(number)}", partial(_digest, getattr(handler, "__qualname__", handler))
    yield "sys.excepthook", partial(_digest, getattr(sys.excepthook, "__qualname__", ""))
    if (numpy := sys.modules.get("numpy")) is not None:
        yield "numpy.geterr", lambda: _digest(numpy.geterr())
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")  # Asking os.umask would set it.
    yield "os.umask", partial(_digest, next(line for line in status.splitlines() if line.startswith("Umask:")))


def _surroundings() -> Iterator[_Reading]:
    for name, value in os.environ.items():
        if not name.startswith(OF_LIBRARIES):
            yield f"os.environ[{name!r}]", partial(_digest, value)
    # Not those of torch: Inductor draws its seeds from them, as many as there are graphs.
    yield "random.getstate", lambda: _digest(random.getstate())
    if (numpy_random := sys.modules.get("numpy.random")) is not None:  # Dynamo imports it in any case.
        yield "numpy.random.get_state", lambda: _digest(pickle.dumps(numpy_random.get_state()))


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode(errors="surrogatepass")).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """A JSON value: numbers and words as they are, a dtype by its name. Nothing else is let through. Raises TypeError
    for a value of another kind, such as a function that the program put there.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if type(value).__name__ == "dtype":
        return str(value).removeprefix("torch.")
    raise TypeError(type(value).__name__)


def names_of_modules() -> dict[str, str]:
    """By "a function of math" a digest of all functions and classes in an installed module, and by "scale of
    /work/helper.py" each function and each plain value of another one, but no value of `__main__`, whose results are
    printed. torch's private parts are left out: they differ by what is compiled.
    """
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        first, *rest = name.split(".")
        private = any(part.startswith("_") for part in rest) or "fx" in rest or "distributed" in rest
        if first in _OF_COMPILERS or (first == "torch" and private) or not isinstance(module, types.ModuleType):
            continue
        file, own = file_of(module), {}
        # torch.ops says that its file is `_ops.py`, and lists the operators that were asked for.
        is_programs = file.endswith(".py") and not is_installed(file) and first != "torch"
        for attribute, value in list(vars(module).items()):
            with contextlib.suppress(Exception):  # A metaclass may answer anything.
                what = _described(value, name) or (_of_values(value) if is_programs and name != "__main__" else "")
                if not attribute.startswith("__") and what:
                    own[attribute] = what
        if is_programs:
            found |= {f"{attribute} of {os.path.realpath(file)}": what for attribute, what in own.items()}
        else:
            found[f"a function of {name}"] = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:16]
    return found


def _of_values(value: Any) -> str:
    """A digest of a constant, or of a list or dict of them and of functions; "" for an object, for one inside, and for
    floats inside, which are results more often than settings, and may be rounded otherwise.
    """
    count = 0

    def plain(value: Any) -> str:
        nonlocal count
        count += 1
        if isinstance(value, float) or count > _MOST_VALUES:
            raise TypeError
        if isinstance(value, set | frozenset):
            return f"{type(value)}{sorted(map(plain, value))}"
        if isinstance(value, list | tuple | dict):
            return f"{type(value)}{[*map(plain, value.items() if isinstance(value, dict) else value)]}"
        return _described(value, "") or repr(_plain(value))

    with contextlib.suppress(TypeError, RecursionError):
        return _digest(value if isinstance(value, float) else plain(value))
    return ""


def _described(value: Any, module: str) -> str:
    """Where the code of a function is, or of all methods of a class of this module; "" for anything else."""
    if issubclass(type(value), type):
        own = vars(value) if value.__module__ == module else {}
        methods = ((name, _described(each, "")) for name, each in list(own.items()))
        return f"{value.__module__}: {value.__qualname__} {sorted(each for each in methods if each[1])}"
    if type(value) in (types.MethodType, staticmethod, classmethod):
        value = value.__func__
    if type(value) is property:
        value = value.fget
    if type(value) is types.FunctionType:
        code = value.__code__
        return f"{code.co_filename}: {getattr(code, 'co_qualname', code.co_name)}"
    return f"{getattr(value, '__module__', '')}: {value.__qualname__}" if type(value) in _OF_C else ""
