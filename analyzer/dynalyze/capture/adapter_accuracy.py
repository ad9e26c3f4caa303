"""The switches of torch that comparing numbers needs, each with what is done where a version lacks it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

# What the dispatcher says of operations that draw random numbers.
_DRAWS = getattr(torch.Tag, "nondeterministic_seeded", None)


@contextlib.contextmanager
def nothing_compiled() -> Iterator[None]:
    """Run what follows in eager, parts that the model compiles by itself included. Does not import Dynamo."""
    set_stance = getattr(torch.compiler, "set_stance", None)
    if "torch._dynamo" not in sys.modules or set_stance is None:
        yield
        return
    with set_stance("force_eager"):
        yield


def forget_compiled() -> None:
    """Drop everything that Dynamo has compiled in this process."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


@contextlib.contextmanager
def comparable_code(emulate: bool = False) -> Iterator[None]:
    """Let Inductor draw random numbers as eager does and, with `emulate`, round where eager rounds.

    A setting that this torch lacks is left out; `can_emulate` tells of the second one.
    """
    config = _inductor_config()
    wanted = {"fallback_random": True, "emulate_precision_casts": emulate}
    with contextlib.ExitStack() as stack:
        if config is not None:
            stack.enter_context(config.patch({name: value for name, value in wanted.items() if hasattr(config, name)}))
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
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    if counters is None:
        return None
    return int(counters["frames"]["ok"]) if "frames" in counters else 0


def draws_random_numbers(operation: Any) -> bool:
    """Whether an operation of the dispatcher takes numbers from a random generator, attention aside.

    Attention carries the tag for a dropout that it seldom has.
    """
    return _DRAWS is not None and _DRAWS in operation.tags and "attention" not in operation.name()


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
    """Inductor's settings; importing them does not import Inductor."""
    with contextlib.suppress(ImportError):
        import torch._inductor.config

        return torch._inductor.config
    return None
