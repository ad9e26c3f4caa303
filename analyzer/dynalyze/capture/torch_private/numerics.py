"""What comparing numbers needs: switches of torch, what Dynamo notes on the nodes of its graphs, and its backends.

Run on torch 2.13. Where a version lacks a switch, `can_emulate` and its like say so; where it lacks a note, the fact is
empty and a bisection names less.
"""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dynalyze.capture.installed import is_torchs
from dynalyze.capture.torch_private import runtime
from dynalyze.capture.torch_private.dynamo import traced_frames

# What the dispatcher says of operations that draw random numbers.
_DRAWS = getattr(torch.Tag, "nondeterministic_seeded", None)
_OPERATION = re.compile(r"OpOverload\(op='([^']+)', overload='([^']+)'\)")
_OF_TORCH = frozenset((
    "aten", "prim", "prims", "inductor", "quantized", "quantized_decomposed", "_quantized", "sparse", "mkldnn",
    "mkldnn_prepacked", "onednn", "xnnpack", "mkl", "fbgemm", "c10d", "_c10d_functional", "c10d_functional",
    "_c10d_functional_autograd", "_dtensor", "symm_mem", "fsdp", "streams", "rngprims", "debugprims", "profiler",
    "higher_order", "_inductor_test", "static_runtime", "_test", "cuda", "mtia", "metal", "flex_lib",
))  # fmt: skip
"""Namespaces of operators that torch itself registers."""


@contextlib.contextmanager
def nothing_compiled() -> Iterator[None]:
    """Run what follows in eager, parts that the model compiles by itself included. Does not import Dynamo."""
    set_stance = getattr(torch.compiler, "set_stance", contextlib.nullcontext)
    with set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def comparable_code(*, draws: bool = True, emulate: bool = False) -> Iterator[None]:
    """Let Inductor draw random numbers as eager does, where the model `draws` any, and with `emulate` round where eager
    rounds. Without either its caches may hold the code already.

    A setting that this torch lacks is left out; `can_emulate` tells of the second one.
    """
    config = _inductor_config()
    wanted = {"fallback_random": draws, "emulate_precision_casts": emulate}
    known = {name: value for name, value in wanted.items() if hasattr(config, name)}
    with contextlib.nullcontext() if config is None else config.patch(known):
        yield


@contextlib.contextmanager
def own_kernels() -> Iterator[bool]:
    """Trace what follows without decompositions that take part in autograd: AOTAutograd makes those in every backend,
    whatever table it has. Yields whether there were any to leave out.
    """
    taken: list[tuple[Any, Any, Any]] = []
    with contextlib.suppress(ImportError, AttributeError):
        from torch._decomp import decomposition_table

        keys = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
        for operation in decomposition_table:
            kernels = getattr(operation, "py_kernels", {})
            taken += [(operation, key, kernels[key]) for key in keys if key in kernels]
    try:
        for operation, key, _ in taken:
            del operation.py_kernels[key]
            operation._dispatch_cache.clear()
        yield bool(taken)
    finally:
        for operation, key, kernel in taken:
            operation.py_kernels[key] = kernel
            operation._dispatch_cache.clear()


@contextlib.contextmanager
def part_off(part: str, kept: int, names: list[str]) -> Iterator[None]:
    """Compile what follows without a part of Inductor, by the switches of torch's own bisector: one of its groups of
    passes, or `lowerings`, in whose place aten's kernels run, or each `decomposition` of its table. The first `kept`
    that come stay on; `names` gets those that came since it was empty, and nothing where torch has no such switches.
    """
    try:
        from torch._inductor.compiler_bisector import CompilerBisector
    except ImportError:
        yield
        return

    def disabled(backend: str, subsystem: str, debug_info: Callable[[], str] | None = None) -> bool:
        if subsystem != part:
            return False
        said = debug_info() if debug_info is not None else ""
        operation = _OPERATION.search(said)
        names.append(".".join(operation.groups()) if operation is not None else said)
        return len(names) > kept

    own = {name: vars(CompilerBisector)[name] for name in ("disable_subsystem", "bisection_enabled")}
    CompilerBisector.disable_subsystem = staticmethod(disabled)
    CompilerBisector.bisection_enabled = True  # Caches are passed by: they know nothing of the switches.
    try:
        yield
    finally:
        for name, value in own.items():
            setattr(CompilerBisector, name, value)


@contextlib.contextmanager
def pass_disabled(name: str) -> Iterator[None]:
    """Compile what follows without an Inductor pass of this name, by the setting that users have for it. Raises
    AttributeError: this torch has no such setting.
    """
    config = _inductor_config()
    with config.patch(disabled_passes=name):
        yield


def can_emulate(backend: Any) -> bool:
    """Whether the backend is Inductor, and can be told to round where eager does."""
    return backend == "inductor" and hasattr(_inductor_config(), "emulate_precision_casts")


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """Multiply float32 matrices in float32: no TF32, no bfloat16, in cuBLAS, cuDNN and oneDNN."""
    cudnn = torch.backends.cudnn
    try:
        before = torch.get_float32_matmul_precision(), cudnn.allow_tf32
    except RuntimeError:  # The program mixed torch's older and newer switches, and reading them is refused.
        yield
        return
    try:
        torch.set_float32_matmul_precision("highest")
        cudnn.allow_tf32 = False
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        cudnn.allow_tf32 = before[1]


def compiled_frames() -> int | None:
    """How many frames Dynamo has compiled since the counters were cleared; None where it does not tell."""
    tells = hasattr(sys.modules.get("torch._dynamo.utils"), "counters")
    return runtime.counters("frames").get("ok", 0) if tells else None


def draws_random_numbers(operation: Any) -> bool:
    """Whether an operation of the dispatcher takes numbers from a random generator, attention aside.

    Attention carries the tag for a dropout that it seldom has.
    """
    return _DRAWS is not None and _DRAWS in operation.tags and "attention" not in operation.name()


def is_custom(operation: Any) -> bool:
    """Whether an operation of the dispatcher is a custom operator."""
    return operation.name().partition("::")[0] not in _OF_TORCH


def watched_operations(
    handle: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any],
) -> contextlib.AbstractContextManager[Any]:
    """Hand each operation of the dispatcher to `handle(operation, args, kwargs)`, where torch has a mode for it."""
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        return contextlib.nullcontext()

    class Watching(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return handle(func, args, kwargs or {})

    return Watching()


def _inductor_config() -> Any:
    """Inductor's settings, without importing Inductor."""
    with contextlib.suppress(ImportError):
        import torch._inductor.config

        return torch._inductor.config
    return None


def backend_function(backend: Any, mode: str | None, dynamic: bool | None) -> Any:
    """What torch.compile would hand its graphs to, for these arguments of its own."""
    if callable(backend):
        return backend
    wrapper = getattr(torch, "_TorchCompileInductorWrapper", None)
    if backend == "inductor" and mode is not None and wrapper is not None:
        return wrapper(mode, None, dynamic)
    from torch._dynamo.backends.registry import lookup_backend

    return lookup_backend(backend)


def value_of(node: torch.fx.Node) -> Any:
    """What Dynamo saw a node give: a tensor without values, a number; None where it does not tell."""
    return node.meta.get("example_value")


def module_ids(node: torch.fx.Node) -> list[int]:
    """The ids of the modules whose forward a node comes from, the outermost first."""
    stack = node.meta.get("nn_module_stack")
    keys = stack.keys() if isinstance(stack, dict) else ()
    return [int(number[0]) for key in keys if (number := re.findall(r"^\d+", str(key)))]


def place_of(node: torch.fx.Node) -> tuple[str, int]:
    """File and line of the innermost call outside torch; "" and 0 where none is known."""
    frames = [frame[:2] for frame in traced_frames(node.meta.get("stack_trace"))]
    outside = [frame for frame in frames if not is_torchs(frame[0]) and linecache.getline(*frame)]
    return (outside or [("", 0)])[-1]
