"""The facts of one module: fields of ModuleFacts, from a single walk over it.

No value of a tensor is read, so parameters on the meta device, sharded ones and those of another device are as good as
any. Nothing raises: what cannot be told becomes a note.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from dynalyze.capture.inspecting import configuration, wrapping
from dynalyze.capture.torch_private import runtime

Facts = dict[str, Any]
_LONGEST_NOTE = 200


def inspected(module: Any, holders: list[Any] | None = None) -> Facts:
    """The fields of ModuleFacts, but for the id and the place of the call. Never raises.

    `holders` are the living wrappers of distributed training, where the caller has looked for them already.
    """
    facts: Facts = {"notes": []}
    with runtime.plain_tensors():
        _add_part(facts, "modules", lambda: _own(module, holders))
        _add_part(facts, "configuration", lambda: configuration.facts_of(wrapping.inner(module)))
        for contribute in contributors():
            _add_part(facts, contribute.__module__.rpartition(".")[2], lambda contribute=contribute: contribute(module))  # type: ignore[misc]
    return facts


@lru_cache(maxsize=1)
def contributors() -> tuple[Callable[[Any], Facts], ...]:
    """`contribute` of every module of this package that has one."""
    names = sorted(found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)]))
    loaded = (_loaded(f"{__package__}.{name}") for name in names)
    return tuple(found for module in loaded if (found := getattr(module, "contribute", None)) is not None)


def _loaded(name: str) -> Any:
    """The module; or one that tells at each call why it could not be imported."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        return _Broken(name, error)


class _Broken:
    def __init__(self, name: str, error: Exception) -> None:
        self._text = f"{name.rpartition('.')[2]}: {type(error).__name__}: {error}"

    def contribute(self, module: Any) -> Facts:
        return {"notes": [self._text[:_LONGEST_NOTE]]}


def _own(module: Any, holders: list[Any] | None) -> Facts:
    model = wrapping.inner(module)
    walked = list(_walk(module))
    around = wrapping.around(module, wrapping.living_wrappers() if holders is None else holders)
    parameters, devices = _counted(walked)
    own = sum(each is not module and each is not model and _is_compiled(each) for each in walked)
    return {
        "class_name": wrapping.class_name(model),
        "training": bool(getattr(module, "training", False)),
        "parameters": parameters,
        "devices": devices,
        "wrappers": around or wrapping.inside(walked),
        "inside_wrapper": bool(around),
        "compiled_parts": own,
    }


def _walk(module: Any) -> Any:
    """Its submodules and itself, by torch's own method: a class may override it."""
    import torch

    return torch.nn.Module.modules(module)


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
            number = _elements(parameter)
            dtypes[str(parameter.dtype).removeprefix("torch.")] += number
            devices[str(parameter.device)] += number
    return dict(dtypes), dict(devices)


def _elements(parameter: Any) -> int:
    """How many it has; a lazy one has none before its first call."""
    try:
        return int(parameter.numel())
    except Exception:
        return 0


def _is_compiled(module: Any) -> bool:
    return runtime.compiled_in_place(module) or module._modules.get("_orig_mod") is not None


def _add_part(facts: Facts, name: str, read: Callable[[], Facts]) -> None:
    try:
        _add(facts, read())
    except Exception as error:
        facts["notes"].append(f"Not all could be read ({name}): {type(error).__name__}: {error}"[:_LONGEST_NOTE])


def _add(facts: Facts, more: Facts) -> None:
    """Lists grow, dicts are joined, anything else is replaced."""
    for name, value in more.items():
        known = facts.get(name)
        if isinstance(known, list) and isinstance(value, list):
            facts[name] = known + [each for each in value if each not in known]
        elif isinstance(known, dict) and isinstance(value, dict):
            facts[name] = {**known, **value}
        else:
            facts[name] = value
