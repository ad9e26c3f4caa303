"""Models of timm with fewer blocks, of the same kinds: what their constructors are given is cut on the way."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

# Arguments of constructors, and fields of configurations, that hold numbers of blocks: of all, or of each stage.
_DEPTHS = ("depth", "depths", "layers", "num_blocks", "stages", "block_config", "serial_depths", "k_sec", "d")
# Lists with an entry for each block, in a list for each stage; and configurations that hold others.
_BLOCKS = "block_args"
_HOLDERS = ("blocks", "stages", "cfg")
# A block of each kind where kinds alternate; features are taken after several blocks.
_MOST, _MOST_WITH_FEATURES = 2, 4
# The widths of stages follow from the number of all blocks; which blocks see the whole image is told by their numbers.
_WHOLE = ("RegNetCfg", "HieraDet")


@contextlib.contextmanager
def made_small(architecture: str, *, features: bool) -> Iterator[None]:
    """Within it, timm makes the architecture with at most so many blocks in a stage."""
    from timm.models import model_entrypoint

    module: Any = sys.modules[model_entrypoint(architecture).__module__]
    build = module.build_model_with_cfg
    most = _MOST_WITH_FEATURES if features else _MOST

    def build_small(model_class: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if getattr(model_class, "__name__", "") in _WHOLE:
            return build(model_class, *args, **kwargs)
        known = {name: each.default for name, each in inspect.signature(model_class).parameters.items()}
        depth = kwargs.get("depth", known.get("depth"))
        for name, value in kwargs.items():
            if isinstance(depth, int) and isinstance(value, (list, tuple)) and len(value) == depth:
                kwargs[name] = value[:most]  # One for each block.
        for name in (*_DEPTHS, _BLOCKS):
            value = kwargs.get(name, known.get(name, inspect.Parameter.empty))
            if value is not inspect.Parameter.empty and value is not None:
                kwargs[name] = _cut(value, most) if name in _DEPTHS else [stage[:most] for stage in value]
        if kwargs.get("model_cfg") is not None:
            kwargs["model_cfg"] = _smaller(kwargs["model_cfg"], most)
        return build(model_class, *args, **kwargs)

    module.build_model_with_cfg = build_small
    try:
        yield
    finally:
        module.build_model_with_cfg = build


def _smaller(config: Any, most: int) -> Any:
    """A configuration, and those that it holds, with smaller numbers of blocks."""
    if isinstance(config, (list, tuple)):
        return type(config)(_smaller(each, most) for each in config)
    if not dataclasses.is_dataclass(config) or type(config).__name__ in _WHOLE:
        return config
    changes: dict[str, Any] = {}
    for each in dataclasses.fields(config):
        value = getattr(config, each.name)
        if each.name in _HOLDERS and not isinstance(value, int):
            changes[each.name] = _smaller(value, most)
        elif each.name in _DEPTHS:
            changes[each.name] = _cut(value, most)
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_cut(each, most) for each in value)
    return min(value, most) if isinstance(value, int) and not isinstance(value, bool) else value
