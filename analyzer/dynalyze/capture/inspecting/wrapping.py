"""Which classes of distributed training stand around a module, or inside of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from typing import Any

from dynalyze.capture.torch_private import runtime

_NAMES = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "FSDPModule")
_HOLD_A_MODULE = ("module", "_fsdp_wrapped_module")
_DEEPEST = 8


def kind_of(cls: type) -> str:
    """The wrapper that a class is, by the name of torch's own; "" where it is none."""
    if not issubclass(cls, runtime.wrapper_classes()):
        return ""
    return next((base.__name__ for base in cls.__mro__ if base.__name__ in _NAMES), cls.__name__)


def inner(module: Any) -> Any:
    """The model itself, below torch.compile's own module and the wrappers that hold another module."""
    for _ in range(_DEEPEST):
        held = module._modules.get("_orig_mod")
        if held is None and kind_of(type(module)) not in ("", "FSDPModule"):
            held = next((found for name in _HOLD_A_MODULE if (found := module._modules.get(name)) is not None), None)
        if held is None:
            return module
        module = held
    return module


def class_name(module: Any) -> str:
    """The class as the program wrote it: `fully_shard` puts one of its own in front."""
    cls = type(module)
    if runtime.is_sharded_in_place(cls) and len(cls.__mro__) > 2:
        cls = cls.__mro__[2]
    return cls.__qualname__


def inside(modules: Iterable[Any]) -> list[str]:
    """The wrappers among the modules of a walk, outermost first, each kind once."""
    classes = dict.fromkeys(type(each) for each in modules)
    return list(dict.fromkeys(kind for cls in classes if (kind := kind_of(cls))))


def around(module: Any, holders: Iterable[Any]) -> list[str]:
    """The wrappers that hold `module`, outermost first."""
    sizes = [(_size_if_holding(holder, module), kind_of(type(holder))) for holder in holders]
    return list(dict.fromkeys(kind for size, kind in sorted(sizes, reverse=True) if size))


def living_wrappers(*, always: bool = False) -> list[Any]:
    """Every living wrapper of this process: a module does not know what holds it.

    That is a look at every object: left out where there is no distributed job, but for `always`. At the end of a
    program its process group may be gone already.
    """
    if not always and not _distributed():
        return []
    classes = runtime.wrapper_classes()
    return [each for each in gc.get_objects() if issubclass(type(each), classes)]


def _distributed() -> bool:
    torch = sys.modules["torch"]
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        return True
    return bool(torch.cuda.is_initialized() and torch.cuda.device_count() > 1)


def _size_if_holding(holder: Any, module: Any) -> int:
    """How many modules `holder` has, where `module` is one of them below it; 0 where it is not."""
    held = list(sys.modules["torch"].nn.Module.modules(holder))
    return len(held) if holder is not module and any(each is module for each in held) else 0
