"""The facts of one module: fields of ModuleFacts, from a single walk over it.

No value of a tensor is read, so parameters on the meta device, sharded ones and those of another device are as good as
any. Nothing raises: what cannot be told becomes a note.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dynalyze.capture.inspecting import library_layers, transformers_model
from dynalyze.capture.torch_private import runtime

Facts = dict[str, Any]
_LONGEST_NOTE = 200

# Each gives some fields of ModuleFacts of a module; its name is what a note calls it.
CONTRIBUTORS: dict[str, Callable[[Any], Facts]] = {
    "configuration": lambda module: transformers_model.configuration(innermost(module)),
    "adapters": library_layers.adapters, "caches": transformers_model.cache, "quantised": library_layers.quantised,
}  # fmt: skip
_NAMES = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "FSDPModule")
_HOLD_A_MODULE = ("module", "_fsdp_wrapped_module")
_DEEPEST = 8


def inspected(module: Any, holders: list[Any] | None = None) -> Facts:
    """The fields of ModuleFacts, but for the id and the place of the call. Never raises.

    `holders` are the living wrappers of distributed training, where the caller has looked for them already.
    """
    facts: Facts = {"notes": []}
    readers: dict[str, Callable[[Any], Facts]] = {"modules": partial(_own, holders=holders), **CONTRIBUTORS}
    with runtime.plain_tensors():
        for name, read in readers.items():
            try:
                facts.update(read(module))
            except Exception as error:
                note = f"Not all could be read ({name}): {type(error).__name__}: {error}"
                facts["notes"].append(note[:_LONGEST_NOTE])
    return facts


def _own(module: Any, holders: list[Any] | None) -> Facts:
    model = innermost(module)
    walked = list(sys.modules["torch"].nn.Module.modules(module))  # A class may override the method.
    around = wrappers_around(module, living_wrappers() if holders is None else holders)
    parameters, devices = _counted(walked)
    inside = filter(None, map(wrapper_kind, dict.fromkeys(map(type, walked))))
    parts = [each for each in walked if each is not module and each is not model]
    compiled = [each for each in parts if runtime.compiled_in_place(each) or each._modules.get("_orig_mod") is not None]
    cls = type(model)
    if runtime.is_sharded_in_place(cls) and len(cls.__mro__) > 2:
        cls = cls.__mro__[2]  # As the program wrote it: `fully_shard` puts a class of its own in front.
    return {
        "class_name": cls.__qualname__,
        "training": bool(getattr(module, "training", False)),
        "parameters": parameters,
        "devices": devices,
        "wrappers": around or list(dict.fromkeys(inside)),
        "inside_wrapper": bool(around),
        "compiled_parts": len(compiled),
    }


def _counted(modules: list[Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Elements of parameters by dtype and by device; one that several modules share counts once."""
    dtypes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    seen: set[int] = set()
    for module in modules:
        for parameter in list(module._parameters.values()):
            if parameter is None or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            number = 0
            with contextlib.suppress(Exception):  # A lazy one has none before its first call.
                number = int(parameter.numel())
            dtypes[str(parameter.dtype).removeprefix("torch.")] += number
            devices[str(parameter.device)] += number
    return dict(dtypes), dict(devices)


def wrapper_kind(cls: type) -> str:
    """The wrapper that a class is, by the name of torch's own; "" where it is none."""
    if not issubclass(cls, runtime.wrapper_classes()):
        return ""
    return next((base.__name__ for base in cls.__mro__ if base.__name__ in _NAMES), cls.__name__)


def innermost(module: Any) -> Any:
    """The model itself, below torch.compile's own module and the wrappers that hold another module."""
    for _ in range(_DEEPEST):
        held = module._modules.get("_orig_mod")
        if held is None and wrapper_kind(type(module)) not in ("", "FSDPModule"):
            held = next((found for name in _HOLD_A_MODULE if (found := module._modules.get(name)) is not None), None)
        if held is None:
            return module
        module = held
    return module


def wrappers_around(module: Any, holders: Iterable[Any]) -> list[str]:
    """The wrappers that hold `module`, outermost first."""
    walk = sys.modules["torch"].nn.Module.modules
    walked = [(list(walk(holder)), wrapper_kind(type(holder))) for holder in holders if holder is not module]
    sizes = [(len(held), kind) for held, kind in walked if any(each is module for each in held)]
    return list(dict.fromkeys(kind for _, kind in sorted(sizes, reverse=True)))


def living_wrappers(*, always: bool = False) -> list[Any]:
    """Every living wrapper of this process: a module does not know what holds it.

    That is a look at every object: left out where there is no distributed job, but for `always`. At the end of a
    program its process group may be gone already.
    """
    torch = sys.modules["torch"]
    group = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not (always or group or (torch.cuda.is_initialized() and torch.cuda.device_count() > 1)):
        return []
    classes = runtime.wrapper_classes()
    return [each for each in gc.get_objects() if issubclass(type(each), classes)]
