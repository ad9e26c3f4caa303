"""The private parts of torch that say how it is set up, and what distributed training made of a module.

Run on torch 2.13. Nothing here imports a part of torch that the program did not import itself. What a version lacks is
not told: `config_values` leaves it out, and no wrapper is found.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from typing import Any

_ABSENT = object()
_DATA_PARALLEL = (
    ("torch.nn.parallel.distributed", "DistributedDataParallel"),
    ("torch.nn.parallel.data_parallel", "DataParallel"),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"),
)
_SHARDED = "FSDPModule"
_SHARDED_MODULES = ("torch.distributed.fsdp", "torch.distributed._composable.fsdp")


def config_values(module: str, names: Iterable[str]) -> dict[str, Any]:
    """Settings of torch's config modules under their dotted names; empty where the module was never imported."""
    config = sys.modules.get(module)
    if config is None:
        return {}
    found = {f"{module}.{name}": _reached(config, name) for name in names}
    return {name: value for name, value in found.items() if value is not _ABSENT}


def _reached(config: Any, name: str) -> Any:
    for part in name.split("."):
        with contextlib.suppress(Exception):  # A config module raises errors of its own for a name it lacks.
            config = getattr(config, part)
            continue
        return _ABSENT
    return config


def wrapper_classes() -> tuple[type, ...]:
    """The classes that wrap a module for distributed training, those that are imported."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in _DATA_PARALLEL)
    sharded = (getattr(sys.modules.get(module), _SHARDED, None) for module in _SHARDED_MODULES)
    return tuple(dict.fromkeys(cls for cls in (*found, *sharded) if isinstance(cls, type)))


def is_sharded_in_place(cls: type) -> bool:
    """Whether `fully_shard` made this class: it puts one of its own between FSDPModule and the original."""
    return any(base.__name__ == _SHARDED for base in cls.__mro__[:2])


def compiled_in_place(module: Any) -> bool:
    """Whether `module.compile()` was called."""
    return vars(module).get("_compiled_call_impl") is not None


@contextlib.contextmanager
def plain_tensors() -> Any:
    """No torch function mode or tensor subclass of the program hears that we look at a tensor's dtype or device."""
    disable = getattr(getattr(sys.modules.get("torch"), "_C", None), "DisableTorchFunction", None)
    if disable is None:
        yield
        return
    with disable():
        yield
